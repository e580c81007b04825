#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libsim/sweep/sweep_columns.hpp"

namespace stagecraft {

/// Identifies the sweep of a journal; a sweep is resumed only with its own journal.
struct JournalHeader {
  std::string program;  ///< version of the program
  std::string sweep;    ///< fingerprint
  std::string shard;    ///< `2/8`
};

/// The rows of a sweep that has not ended, on disk in the order in which they were computed.
///
/// A text header is followed by records: the size of a batch, its CRC-32, and the batch (its number
/// and its rows). Each is appended by one write, so that a process killed at any moment leaves
/// complete records and at most one incomplete one at the end, which is cut off when the journal is
/// opened again.
class SweepJournal {
 public:
  enum class Open : std::uint8_t { created, resumed };

  /// Creates the journal, or opens an existing one of the same sweep. Only one process can have it
  /// open.
  /// \throws OutputError  if it cannot be written, or another process has it open
  /// \throws InputError   if it is to be created and exists; if it is to be resumed and belongs to
  ///     another sweep, shard or program
  SweepJournal(std::filesystem::path path, JournalHeader const& header, Open open);
  ~SweepJournal();
  SweepJournal(SweepJournal const&) = delete;
  SweepJournal(SweepJournal&&) = delete;
  SweepJournal& operator=(SweepJournal const&) = delete;
  SweepJournal& operator=(SweepJournal&&) = delete;

  std::filesystem::path const& path() const { return path_; }
  bool has(std::int64_t batch) const;
  /// The number of rows.
  std::int64_t rows() const { return rows_; }

  /// Appends a batch. \throws OutputError  Then the journal is unchanged.
  void append(std::int64_t batch, std::vector<SweepRow> const& rows);

  /// Calls `take` with all rows, in the order of the journal. \throws OutputError  if it cannot be
  /// read
  void for_each(std::function<void(SweepRow&&)> const& take) const;

  /// The warnings of the rows, each once, with the number of its rows.
  /// \throws OutputError  if the journal cannot be read
  std::map<std::string, std::int64_t> warnings() const;

  /// Removes the file, after its rows were written elsewhere.
  void remove();

 private:
  void read_header(std::string const& expected);
  void read_records();
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t begin_ = 0;  ///< offset of the first record, in bytes
  std::int64_t end_ = 0;
  std::int64_t rows_ = 0;
  std::vector<bool> batches_;
};

}  // namespace stagecraft
