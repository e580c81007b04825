#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "libsim/report/paper/reproduction.hpp"

namespace stagecraft {

/// Everything that can be reproduced, in the order of the paper: table2 table4 table5 headline
/// figure1 figure7 figure8 figure9 appendix-c.
std::vector<std::string_view> reproducible();

/// Reproduces one of reproducible() from the run files in `paper_configs`.
///
/// The result is a list because table5 also gives `table5_rates` (throughput increase, MFU, HFU).
/// Published numbers: Korthikanti et al. 2022, arXiv:2205.05198, used as reference values.
/// \throws ConfigError  if a run file is damaged.
std::vector<Reproduction> reproduce(std::string_view what,
                                    std::filesystem::path const& paper_configs);

}  // namespace stagecraft
