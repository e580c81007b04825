#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libsim/sweep/sweep_columns.hpp"

namespace stagecraft {

/// What a journal belongs to; a sweep goes on only with its own.
struct JournalHeader {
  std::string program;  ///< version of the program
  std::string sweep;    ///< fingerprint
  std::string shard;    ///< `2/8`
};

/// The rows of a sweep that has not ended, on disk in the order in which they came.
///
/// A text header is followed by records: the size of a batch, its CRC-32, and the batch (its number
/// and its rows). Each is appended by one write, so that a process killed at any moment leaves
/// whole records and at most one torn one at the end, which is cut off when the journal is opened
/// again.
class SweepJournal {
 public:
  enum class Open : std::uint8_t { created, resumed };

  /// Creates the journal, or opens the one that is there and belongs to the same sweep. Nobody else
  /// can have it open.
  /// \throws OutputError  where it cannot be written, or another process has it open
  /// \throws InputError   where it is there and is to be created; resumed: where it is of another
  ///     sweep, shard or program
  SweepJournal(std::filesystem::path path, JournalHeader const& header, Open open);
  ~SweepJournal();
  SweepJournal(SweepJournal const&) = delete;
  SweepJournal(SweepJournal&&) = delete;
  SweepJournal& operator=(SweepJournal const&) = delete;
  SweepJournal& operator=(SweepJournal&&) = delete;

  std::filesystem::path const& path() const { return path_; }
  bool has(std::int64_t batch) const;
  /// Rows that it has.
  std::int64_t rows() const { return rows_; }

  /// Appends a batch. \throws OutputError  and then the journal is as before
  void append(std::int64_t batch, std::vector<SweepRow> const& rows);

  /// Hands on all rows, in the order of the journal. \throws OutputError  where it cannot be read
  void for_each(std::function<void(SweepRow&&)> const& take) const;

  /// What the rows are warned of, each warning once, with how many rows it is about.
  /// \throws OutputError  where the journal cannot be read
  std::map<std::string, std::int64_t> warnings() const;

  /// Removes the file: its rows are elsewhere.
  void remove();

 private:
  void read_header(std::string const& expected);
  void read_records();
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t begin_ = 0;  ///< of the records, in bytes
  std::int64_t end_ = 0;
  std::int64_t rows_ = 0;
  std::vector<bool> batches_;
};

}  // namespace stagecraft
