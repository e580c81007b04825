#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsim/schedule/stage_program.hpp"

namespace stagecraft {

/// Goes through the issue order that a program stands for (unroll()), entry by entry, without
/// writing it out.
///
///     ProgramReader reader{program};
///     while (reader.next()) use(reader.entry(), reader.microbatch());
class ProgramReader {
 public:
  /// The program must outlive the object.
  explicit ProgramReader(StageProgram const& program) : program_{program} {}

  /// Advances to the first entry, then to the next. Returns false at the end.
  bool next();
  /// Returns to the state after construction, before the first entry.
  void restart();

  /// The place of the current entry in the issue order, from 0; -1 before the first.
  std::int32_t number() const { return number_; }
  /// As the program has it: of kind run with the microbatch of its first time.
  IssueEntry const& entry() const { return program_.entries[position_]; }
  MicrobatchId microbatch() const {
    MicrobatchId const first = entry().microbatch;
    return first == no_microbatch ? first : first + advance_;
  }
  /// What the current entry posts or waits for, with the numbers of this time.
  std::span<Transfer const> transfers() const {
    return std::span{posted_}.subspan(first_transfer_, static_cast<std::size_t>(transfers_));
  }

  /// If the current entry is the last of what StageProgram::window_repeat repeats: how often that
  /// will run again. Otherwise 0.
  std::int32_t repeats_left() const;
  /// Goes on as if it had run so many times more. Pre: `times` is at most repeats_left().
  void skip_repeats(std::int32_t times);

 private:
  /// A repeat that it is in.
  struct Repeat {
    std::size_t entry = 0;
    std::int32_t left = 0;  ///< times, this one included
  };

  void pass_repeats();
  void read_transfers();

  StageProgram const& program_;
  std::size_t position_ = 0;
  std::int32_t number_ = -1;
  std::int32_t advance_ = 0;      ///< of the microbatches
  std::vector<Repeat> repeats_;   ///< the innermost one last
  std::vector<Transfer> posted_;  ///< that have not been waited for, behind `waited_`
  std::size_t waited_ = 0;
  std::size_t first_transfer_ = 0;  ///< of the entry, in posted_
  std::int32_t transfers_ = 0;      ///< of the entry
};

}  // namespace stagecraft
