#pragma once

#include "libsim/units/ids.hpp"
#include "libsim/units/pass.hpp"

namespace stagecraft {

/// A pass of one microbatch through one chunk of a stage.
struct ChunkRun {
  Pass pass = Pass::forward;
  MicrobatchId microbatch{};
  ChunkId chunk{};

  friend bool operator==(ChunkRun const&, ChunkRun const&) = default;
};

}  // namespace stagecraft
