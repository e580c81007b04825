#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "nccl.h"

namespace stagecraft::nccl_emulation {

/// What a rank calls on a communicator, as the others see it.
struct Call {
  enum class Kind : std::int32_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    broadcast,
    reduce,
    send,
    receive,
    split,
    finalize
  };
  Kind kind = Kind::all_reduce;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t reduction = ncclSum;  ///< of what reduces
  std::int32_t root = 0;            ///< or the peer of a message
  std::uint64_t count = 0;          ///< as the call has it

  bool is_message() const { return kind == Kind::send || kind == Kind::receive; }
  friend bool operator==(Call const&, Call const&) = default;
};

/// "ncclReduce of 4 ncclFloat32 by ncclSum to rank 1"
std::string to_text(Call const& call);

/// Whether NCCL has it, and this emulation too.
bool is_known(ncclDataType_t type);
bool is_known(ncclRedOp_t reduction);
std::size_t element_bytes(ncclDataType_t type);

/// Elements of the two buffers, of one rank of so many. A broadcast's source and a reduction's
/// target count for the root alone.
std::size_t source_elements(Call const& call, int ranks);
std::size_t target_elements(Call const& call, int ranks);

}  // namespace stagecraft::nccl_emulation
