#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stagecraft {

/// What a chunk, and each of its blocks, runs for a microbatch at one time; a schedule places each
/// pass on its own. The backward runs whole, or as an input gradient and, any time later, a weight
/// gradient. If the schedule recomputes ahead of them, that is a pass too.
enum class Pass : std::uint8_t { forward, backward, input_gradient, weight_gradient, recompute };
inline constexpr std::size_t pass_count = 5;
constexpr std::size_t index_of(Pass pass) { return static_cast<std::size_t>(pass); }

/// The letters of passes in texts and pictures, in the order of Pass; R is recompute.
inline constexpr std::string_view pass_letters = "FBIWR";
constexpr char letter_of(Pass pass) { return pass_letters[index_of(pass)]; }

/// Whether the pass computes the gradient that the chunk before it waits for.
constexpr bool gives_gradient(Pass pass) {
  return pass == Pass::backward || pass == Pass::input_gradient;
}

/// Whether the chunk's activations, or what is left of them, are free after the pass.
constexpr bool ends_in_flight(Pass pass) {
  return pass == Pass::backward || pass == Pass::weight_gradient;
}

}  // namespace stagecraft
