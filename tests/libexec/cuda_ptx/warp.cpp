#include "tests/libexec/cuda_ptx/warp.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "tests/libexec/cuda_ptx/block_memory.hpp"

namespace stagecraft::ptx {

Warp::Warp(Program const& program, BlockMemory& memory, int number, int threads)
    : program_{program},
      bytes_(program.registers.size() + 64),
      registers_{nullptr, memory, number},
      threads_{threads},
      all_{threads == warp_lanes ? 0xFFFFFFFFU : (1U << threads) - 1} {
  void* aligned = bytes_.data();
  std::size_t size = bytes_.size();
  registers_.bytes =
      static_cast<std::byte*>(std::align(64, program.registers.size(), aligned, size));
}

void Warp::begin() {
  std::memcpy(registers_.bytes, program_.registers.data(), program_.registers.size());
  registers_.carry = 0;
  meetings_.assign(1, {-1, -1, 0});
  groups_.assign(1, {0, 0, all_});
  state_ = State::ready;
}

Warp::State Warp::run() {
  state_ = State::ready;
  try {
    while (state_ == State::ready) {
      // Those who have the farthest way to their meeting run first.
      std::size_t chosen = groups_.size();
      for (std::size_t i = 0; i < groups_.size(); ++i) {
        if (groups_[i].waits) continue;
        auto const depth = [&](std::size_t group) {
          return meetings_[static_cast<std::size_t>(groups_[group].meeting)].depth;
        };
        if (chosen == groups_.size() || depth(i) > depth(chosen)) chosen = i;
      }
      if (chosen < groups_.size()) {
        run_group(chosen);
      } else if (groups_.empty()) {
        state_ = State::ended;
      } else {
        at_ = groups_.front().place;
        throw Fault{"lanes wait for others that do not come"};
      }
    }
  } catch (Fault const& fault) {
    Instruction const& one = program_.code[static_cast<std::size_t>(at_)];
    throw Fault{"warp " + std::to_string(registers_.warp) + ", line " + std::to_string(one.line) +
                " of the PTX, " + program_.opcodes[one.opcode] + ": " + fault.what()};
  }
  return state_;
}

void Warp::require_whole(Group const& group, std::uint32_t lanes) const {
  if (lanes == 0xFFFFFFFFU && group.lanes == lanes) return;
  throw Fault{"executed by " + std::to_string(std::popcount(lanes)) + " lanes of a warp, not 32"};
}

/// Runs a group until it waits, ends, parts or meets others.
void Warp::run_group(std::size_t number) {
  Group group = groups_[number];
  Instruction const* const code = program_.code.data();
  int meeting_place = meetings_[static_cast<std::size_t>(group.meeting)].place;
  for (;;) {
    at_ = group.place;
    Instruction const& one = code[group.place];
    std::uint32_t lanes = group.lanes;
    if (one.guard != no_slot) {
      std::uint32_t const guard = registers_.predicate(one.guard);
      lanes &= one.is_negated ? ~guard : guard;
    }
    switch (one.flow) {
      case Flow::next:
        if (lanes != 0) one.execute(registers_, one, lanes);
        ++group.place;
        break;
      case Flow::aligned:
        if (lanes != 0) {
          require_whole(group, lanes);
          one.execute(registers_, one, lanes);
        }
        ++group.place;
        break;
      case Flow::branch:
        if (lanes == group.lanes) {
          group.place = one.target;
        } else if (lanes == 0) {
          ++group.place;
        } else {
          groups_[number] = group;
          branch(groups_[number], one, lanes);
          merge();
          return;
        }
        break;
      case Flow::exit:
        group.lanes &= ~lanes;
        ++group.place;
        if (group.lanes == 0) {
          groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(number));
          return;
        }
        break;
      case Flow::block_barrier:
        if (lanes != 0) {
          if (lanes != all_ || group.lanes != all_) {
            throw Fault{"executed by " + std::to_string(std::popcount(lanes)) +
                        " lanes of a warp, not " + std::to_string(threads_)};
          }
          ++group.place;
          arrive(group);
          groups_[number] = group;
          state_ = State::at_barrier;
          return;
        }
        ++group.place;
        break;
      case Flow::meeting: {
        if (lanes == 0) {
          ++group.place;
          break;
        }
        if (lanes != group.lanes) throw Fault{"a predicate parts the lanes that it is for"};
        std::uint32_t const members =
            registers_.lanes<std::uint32_t>(one.slots.back())[std::countr_zero(lanes)];
        if (members == group.lanes) {
          one.execute(registers_, one, lanes);
          ++group.place;
          break;
        }
        groups_[number] = group;
        if (meet(groups_[number], one, members)) merge();
        return;
      }
    }
    if (group.place == meeting_place) {
      arrive(group);
      groups_[number] = group;
      merge();
      return;
    }
  }
}

/// Leaves meetings at which the group is.
void Warp::arrive(Group& group) {
  for (;;) {
    Meeting const& meeting = meetings_[static_cast<std::size_t>(group.meeting)];
    if (meeting.place != group.place || meeting.outer < 0) return;
    group.meeting = meeting.outer;
  }
}

void Warp::branch(Group& group, Instruction const& one, std::uint32_t taken) {
  Meeting const current = meetings_[static_cast<std::size_t>(group.meeting)];
  int meeting = group.meeting;
  if (one.reconvergence >= 0 && one.reconvergence != current.place) {
    meeting = static_cast<int>(meetings_.size());
    meetings_.push_back({group.meeting, one.reconvergence, current.depth + 1});
  }
  Group other{one.target, meeting, taken};
  group.lanes &= ~taken;
  group.meeting = meeting;
  ++group.place;
  arrive(group);
  arrive(other);
  groups_.push_back(other);
}

/// Joins groups that are at the same place, on their way to the same meeting.
void Warp::merge() {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    for (std::size_t k = groups_.size(); k-- > i + 1;) {
      if (groups_[k].place != groups_[i].place || groups_[k].meeting != groups_[i].meeting)
        continue;
      if (groups_[k].waits != groups_[i].waits) continue;
      groups_[i].lanes |= groups_[k].lanes;
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  if (groups_.size() == 1 && groups_.front().meeting == 0) meetings_.resize(1);
}

/// Makes a group wait for the members that are not in it; with the last of them all go on
/// together. Says whether they do.
bool Warp::meet(Group& group, Instruction const& one, std::uint32_t members) {
  if ((group.lanes & ~members) != 0) throw Fault{"a lane is none of the members that it names"};
  group.waits = true;
  std::uint32_t here = 0;
  for (Group const& other : groups_) {
    if (other.waits && other.place == group.place) here |= other.lanes;
  }
  if ((here & members) != members) {
    std::uint32_t alive = 0;
    for (Group const& other : groups_) alive |= other.lanes;
    if ((members & ~alive) != 0) throw Fault{"a member is no thread, or has ended"};
    return false;
  }
  if (here != members) throw Fault{"lanes at one place name different members"};
  one.execute(registers_, one, members);
  // The innermost meeting that all of them are on their way to.
  int const place = group.place;
  int common = group.meeting;
  auto const depth = [&](int meeting) {
    return meetings_[static_cast<std::size_t>(meeting)].depth;
  };
  auto const outer = [&](int meeting) {
    return meetings_[static_cast<std::size_t>(meeting)].outer;
  };
  for (Group const& other : groups_) {
    if (!other.waits || other.place != place) continue;
    int theirs = other.meeting;
    while (theirs != common) {
      if (depth(theirs) >= depth(common)) {
        theirs = outer(theirs);
      } else {
        common = outer(common);
      }
    }
  }
  std::erase_if(groups_, [&](Group const& other) { return other.waits && other.place == place; });
  Group all{place + 1, common, members};
  arrive(all);
  groups_.push_back(all);
  return true;
}

}  // namespace stagecraft::ptx
