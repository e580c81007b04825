#pragma once

#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// The shape of a hidden state as the rank holds it between modules.
inline Shape local_hidden(BlockShape const& shape) {
  return {shape.local_sequence(), shape.micro, shape.model.hidden};
}

/// The shape of a hidden state with the rows of the whole tensor group.
inline Shape whole_hidden(BlockShape const& shape) {
  return {shape.sequence(), shape.micro, shape.model.hidden};
}

}  // namespace stagecraft
