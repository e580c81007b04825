#pragma once

#include <filesystem>
#include <vector>

#include "libsim/report/paper/reproduction.hpp"

namespace stagecraft {

/// Memory per GPU by model: parameters and optimizer state; activations without and with the
/// paper's techniques.
std::vector<Reproduction> reproduce_figure1(std::filesystem::path const& paper_configs);
/// Activations of each technique in percent of the tensor-parallel baseline. The published value is
/// the ratio of the closed forms of table 2, which the figure draws.
std::vector<Reproduction> reproduce_figure7(std::filesystem::path const& paper_configs);
/// The time of a layer, forward, backward and recompute, and its overhead over the baseline.
std::vector<Reproduction> reproduce_figure8(std::filesystem::path const& paper_configs);
/// Activation memory of every pipeline rank, 530B, with output deallocation and without.
///
/// The runs have full recompute without sequence parallelism under plain 1F1B, the only
/// interpretation that agrees with every point of the figure.
std::vector<Reproduction> reproduce_figure9(std::filesystem::path const& paper_configs);

}  // namespace stagecraft
