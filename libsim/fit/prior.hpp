#pragma once

#include <string_view>

namespace stagecraft {

/// How far a constant may be from its value before any run was measured: the standard deviation of
/// its logarithm, by what the constant is of. Used for constants that give no `spread`.
///
/// Matrix products and attention 3.2 % (2.5 % between shapes, 2 % in common), other kernels 4 %,
/// collectives within a node 5 %, the network 15 %, whatever the host does and fixed costs 20 %,
/// shares that overlap 29 % (a hidden part that is anything from none to all), the stack's factor
/// 10 % (what releases of one stack differ by).
/// Sources: the products' 2.5 % are what a good heuristic errs by over shapes; stacks differ by 0
/// to 7 % between releases of half a year (NVIDIA, dgxc-benchmarking); the rest are guesses of this
/// size.
double default_spread(std::string_view key);

}  // namespace stagecraft
