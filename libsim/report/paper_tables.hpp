#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libsim/report/reproduction.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// The paper's four models, by the names of their run files.
struct PaperModel {
  std::string name;  ///< "22B"
  std::string file;  ///< "22b": {file}-full.yaml and {file}-present.yaml
};
std::vector<PaperModel> paper_models();

/// {file}-{case}.yaml of `folder`, with overrides.
RunConfig load_paper_run(std::filesystem::path const& folder,
                         PaperModel const& model,
                         std::string const& case_name,
                         std::vector<std::string> const& overrides = {});

/// A row of table 2 or 4: a case and the settings that make it out of {file}-present.yaml.
struct PaperCase {
  std::string name;
  std::vector<std::string> overrides;
};
/// baseline, sequence, full, selective, selective_sequence, in the order of table 4.
std::vector<PaperCase> paper_cases();

std::vector<Reproduction> reproduce_table2(std::filesystem::path const& paper_configs);
std::vector<Reproduction> reproduce_table4(std::filesystem::path const& paper_configs);
std::vector<Reproduction> reproduce_table5(std::filesystem::path const& paper_configs);
std::vector<Reproduction> reproduce_headline(std::filesystem::path const& paper_configs);
/// 175B and 530B with as many microbatches stored as fit, over the present work without.
std::vector<Reproduction> reproduce_appendix_c(std::filesystem::path const& paper_configs);

}  // namespace stagecraft
