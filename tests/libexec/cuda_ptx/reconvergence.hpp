#pragma once

#include <vector>

#include "tests/libexec/cuda_ptx/program.hpp"

namespace stagecraft::ptx {

/// Sets where the lanes that each conditional branch parts meet again: at its immediate
/// post-dominator, the first place that all of them come to, if there is one.
/// Source: Cooper, Harvey, Kennedy 2001, "A Simple, Fast Dominance Algorithm", on reversed edges.
void find_reconvergence(std::vector<Instruction>& code);

}  // namespace stagecraft::ptx
