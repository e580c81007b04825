#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "nccl.h"

namespace stagecraft::nccl_emulation {

/// What a call of NCCL's interface returns, or reports later, and why.
class Failure : public std::runtime_error {
 public:
  Failure(ncclResult_t code, std::string const& why) : std::runtime_error{why}, code_{code} {}
  ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

/// Fails of a call of the system's. \throws std::runtime_error  with its name and errno's text
[[noreturn]] inline void fail(char const* call) {
  throw std::runtime_error{std::string{call} + ": " + std::strerror(errno)};
}

/// Keeps what ncclGetLastError() says. Device's lock is held.
void remember(std::string const& why);

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
