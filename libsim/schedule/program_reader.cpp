#include "libsim/schedule/program_reader.hpp"

namespace stagecraft {

bool ProgramReader::next() {
  if (number_ >= 0) ++position_;
  pass_repeats();
  if (position_ == program_.entries.size()) return false;
  ++number_;
  read_transfers();
  return true;
}

void ProgramReader::restart() {
  position_ = 0;
  number_ = -1;
  advance_ = 0;
  repeats_.clear();
  posted_.clear();
  waited_ = first_transfer_ = 0;
  transfers_ = 0;
}

/// Goes back or on at each repeat that it stands at.
void ProgramReader::pass_repeats() {
  while (position_ < program_.entries.size()) {
    IssueEntry const& repeat = program_.entries[position_];
    if (repeat.kind != IssueEntry::Kind::repeat) return;
    if (repeats_.empty() || repeats_.back().entry != position_) {
      repeats_.push_back({position_, repeat.times});
    }
    if (--repeats_.back().left == 0) {
      repeats_.pop_back();
      advance_ -= (repeat.times - 1) * repeat.advance;
      ++position_;
    } else {
      advance_ += repeat.advance;
      position_ -= static_cast<std::size_t>(repeat.count);
    }
  }
}

void ProgramReader::read_transfers() {
  IssueEntry const& of = entry();
  transfers_ = 0;
  if (of.kind == IssueEntry::Kind::post) {
    // Transfers that have been waited for take at most half of the room.
    if (2 * waited_ > posted_.size()) {
      posted_.erase(posted_.begin(), posted_.begin() + static_cast<std::ptrdiff_t>(waited_));
      waited_ = 0;
    }
    first_transfer_ = posted_.size();
    transfers_ = of.count;
    for (std::int32_t i = of.first; i < of.first + of.count; ++i) {
      Transfer& transfer = posted_.emplace_back(program_.transfers[static_cast<std::size_t>(i)]);
      transfer.microbatch = transfer.microbatch + advance_;
      transfer.message += advance_;  // messages of a channel are numbered by their microbatches
    }
  } else if (of.kind == IssueEntry::Kind::wait) {
    first_transfer_ = waited_;
    transfers_ = of.count;
    waited_ += static_cast<std::size_t>(of.count);
  }
}

std::int32_t ProgramReader::repeats_left() const {
  if (program_.window_repeat == StageProgram::none || number_ < 0) return 0;
  auto const repeat = static_cast<std::size_t>(program_.window_repeat);
  if (position_ + 1 != repeat) return 0;
  return (repeats_.empty() ? program_.entries[repeat].times : repeats_.back().left) - 1;
}

void ProgramReader::skip_repeats(std::int32_t times) {
  IssueEntry const& repeat = program_.entries[static_cast<std::size_t>(program_.window_repeat)];
  if (repeats_.empty()) {
    repeats_.push_back({static_cast<std::size_t>(program_.window_repeat), repeat.times});
  }
  repeats_.back().left -= times;
  advance_ += times * repeat.advance;
  for (std::size_t i = waited_; i < posted_.size(); ++i) {
    posted_[i].microbatch = posted_[i].microbatch + times * repeat.advance;
    posted_[i].message += times * repeat.advance;
  }
  number_ += times * repeat.count;
}

}  // namespace stagecraft
