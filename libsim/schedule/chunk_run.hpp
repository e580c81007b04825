#pragma once

#include <cstdint>

#include "libsim/units/ids.hpp"

namespace stagecraft {

/// The parts of a microbatch's work in a chunk; a schedule places each on its own. The backward
/// pass runs whole, or as an input gradient and, any time later, a weight gradient.
enum class Part : std::uint8_t { forward, backward, input_gradient, weight_gradient, recompute };

/// The letter of a part in texts and pictures: F, B, I, W, and R for recompute.
constexpr char letter_of(Part part) { return "FBIWR"[static_cast<std::uint8_t>(part)]; }

/// Whether the part computes the gradient that the chunk before it waits for.
constexpr bool gives_gradient(Part part) {
  return part == Part::backward || part == Part::input_gradient;
}

/// Whether the chunk's activations, or what is left of them, are free after the part.
constexpr bool ends_in_flight(Part part) {
  return part == Part::backward || part == Part::weight_gradient;
}

/// A part of one microbatch in one chunk of a stage.
struct ChunkRun {
  Part part = Part::forward;
  MicrobatchId microbatch{};
  ChunkId chunk{};

  friend bool operator==(ChunkRun const&, ChunkRun const&) = default;
};

}  // namespace stagecraft
