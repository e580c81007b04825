#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/libexec/cuda_ptx/program.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

namespace stagecraft::ptx {

/// Runs the threads of a warp. Lanes that a branch parts go on one group after the other, and
/// together again from where all of them come to (find_reconvergence); a group that waits for
/// others lets them run first.
class Warp {
 public:
  enum class State { ready, at_barrier, ended };

  /// \param threads  1 to 32: lanes from 0
  Warp(Program const& program, BlockMemory& memory, int number, int threads);
  Warp(Warp const&) = delete;
  Warp& operator=(Warp const&) = delete;
  Warp(Warp&&) = delete;
  Warp& operator=(Warp&&) = delete;
  ~Warp() = default;

  /// At the kernel's first instruction, with fresh registers.
  void begin();
  void set_special(Slot slot, int lane, std::uint32_t value) {
    registers_.lanes<std::uint32_t>(slot)[lane] = value;
  }
  int threads() const { return threads_; }

  /// Until it waits for the block, or all threads have ended.
  /// \throws Fault  names the instruction
  State run();
  State state() const { return state_; }

 private:
  /// Where lanes meet that a branch parted, and what waits further out.
  struct Meeting {
    int outer;
    int place;
    int depth;
  };
  struct Group {
    int place;
    int meeting;
    std::uint32_t lanes;
    bool waits = false;  ///< at an instruction that needs more lanes
  };

  void run_group(std::size_t number);
  void branch(Group& group, Instruction const& one, std::uint32_t taken);
  void arrive(Group& group);
  void merge();
  bool meet(Group& group, Instruction const& one, std::uint32_t members);
  void require_whole(Group const& group, std::uint32_t lanes) const;

  Program const& program_;
  std::vector<std::byte> bytes_;
  WarpRegisters registers_;
  int threads_;
  std::uint32_t all_;
  State state_ = State::ready;
  std::vector<Group> groups_{};
  std::vector<Meeting> meetings_{};
  int at_ = 0;  ///< the instruction that runs
};

}  // namespace stagecraft::ptx
