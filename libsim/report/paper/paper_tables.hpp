#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/report/paper/reproduction.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// The paper's four models, by the names of their run files.
struct PaperModel {
  std::string name;  ///< "22B"
  std::string file;  ///< "22b": {file}-full.yaml and {file}-present.yaml
};
std::vector<PaperModel> paper_models();

/// Loads {file}-{case}.yaml of `folder`, with overrides.
RunConfig load_paper_run(std::filesystem::path const& folder,
                         PaperModel const& model,
                         std::string const& case_name,
                         std::vector<std::string> const& overrides = {});

/// A row of table 2 or 4: a case and the settings that turn {file}-present.yaml into it.
struct PaperCase {
  std::string name;
  std::vector<std::string> overrides;
};
/// The cases baseline, sequence, full, selective and selective_sequence, in the order of table 4.
std::vector<PaperCase> paper_cases();

/// The time of one layer for one microbatch.
struct LayerSeconds {
  double forward = 0;
  double backward = 0;  ///< recompute included

  double sum() const { return forward + backward; }
};
LayerSeconds seconds_of(LayerResult const& layer);

/// The published time of a layer of the 22B model on A100s, t = 8, b = 4, in one of paper_cases().
/// Source: Korthikanti et al. 2022, table 4. \throws std::out_of_range  for another case.
LayerSeconds published_layer(std::string const& case_name);

/// The run whose layer is in table 4. \throws ConfigError
RunConfig load_table4_run(std::filesystem::path const& paper_configs, PaperCase const& paper_case);

/// Predicts one layer of a run, for one microbatch on one rank. \throws std::bad_optional_access
LayerResult predict_layer(RunConfig const& run);

std::vector<Reproduction> reproduce_table2(std::filesystem::path const& paper_configs);
std::vector<Reproduction> reproduce_table4(std::filesystem::path const& paper_configs);
std::vector<Reproduction> reproduce_table5(std::filesystem::path const& paper_configs);
std::vector<Reproduction> reproduce_headline(std::filesystem::path const& paper_configs);
/// 175B and 530B with as many microbatches stored as fit, compared with the present work.
std::vector<Reproduction> reproduce_appendix_c(std::filesystem::path const& paper_configs);

}  // namespace stagecraft
