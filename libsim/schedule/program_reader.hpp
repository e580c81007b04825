#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsim/schedule/stage_program.hpp"

namespace stagecraft {

/// Visits the issue order of a program (unroll()) entry by entry, without writing it out.
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
  /// The entry as the program has it: one of kind run has the microbatch of its first time.
  IssueEntry const& entry() const { return program_.entries[position_]; }
  MicrobatchId microbatch() const {
    MicrobatchId const first = entry().microbatch;
    return first == no_microbatch ? first : first + advance_;
  }
  /// The transfers that the current entry posts or waits for, with this time's microbatches and
  /// messages.
  std::span<Transfer const> transfers() const {
    return std::span{posted_}.subspan(first_transfer_, static_cast<std::size_t>(transfers_));
  }

  /// The number of times that the entries of StageProgram::window_repeat will run again, if the
  /// current entry is the last of them; otherwise 0.
  std::int32_t repeats_left() const;
  /// Skips `times` of these repeats, as if they had run. Pre: `times` is at most repeats_left().
  void skip_repeats(std::int32_t times);

 private:
  /// A repeat that is running.
  struct Repeat {
    std::size_t entry = 0;
    std::int32_t left = 0;  ///< runs that are left, the current one included
  };

  void pass_repeats();
  void read_transfers();

  StageProgram const& program_;
  std::size_t position_ = 0;
  std::int32_t number_ = -1;
  std::int32_t advance_ = 0;      ///< added to microbatches
  std::vector<Repeat> repeats_;   ///< the innermost one last
  std::vector<Transfer> posted_;  ///< transfers; those from `waited_` on have not been waited for
  std::size_t waited_ = 0;
  std::size_t first_transfer_ = 0;  ///< first transfer of the current entry, in posted_
  std::int32_t transfers_ = 0;      ///< transfers of the current entry
};

}  // namespace stagecraft
