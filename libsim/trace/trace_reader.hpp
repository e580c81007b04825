#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libsim/trace/trace.hpp"

namespace stagecraft {

class Hdf5File;

/// Reads trace files as SCHEMA.md has them, and trusts nothing in them.
///
/// What comes out is sound: columns of one length, indices within the names, no negative duration
/// or memory, every start + duration and every sum of memory below 2^62, times of memory that never
/// decrease. A rank takes at most 1 GiB; HDF5 is not thread-safe: one thread of a process at a
/// time.
///
/// HDF5 1.10 does the first parsing; files made to attack it can crash it before anything here
/// runs.
class TraceReader {
 public:
  /// Opens a file and reads all but its ranks.
  /// \throws ForeignFileError  when it is an HDF5 file of something else
  /// \throws TraceFileError  when it is missing, no HDF5 file, damaged, or of another version.
  explicit TraceReader(std::filesystem::path const& path);
  /// The same of a file that is in memory; `name` stands for it in messages.
  TraceReader(std::span<unsigned char const> image, std::string const& name);
  ~TraceReader();
  TraceReader(TraceReader&&) noexcept;
  TraceReader(TraceReader const&) = delete;
  TraceReader& operator=(TraceReader const&) = delete;
  TraceReader& operator=(TraceReader&&) = delete;

  /// The file as messages name it.
  std::string const& name() const { return name_; }
  TraceMeta const& meta() const { return meta_; }
  TraceNames const& names() const { return names_; }
  /// Numbers of the ranks in the file, ascending.
  std::vector<std::int32_t> const& ranks() const { return ranks_; }

  /// The pipeline stage of a rank, without reading the rest of it.
  /// Pre: `rank` is one of ranks(). \throws TraceFileError
  std::int32_t stage_of(std::int32_t rank) const;
  /// Pre: `rank` is one of ranks(). \throws TraceFileError
  RankTrace read(std::int32_t rank) const;
  /// All ranks together, at most 1 GiB of them. \throws TraceFileError
  Trace read_all() const;

 private:
  void read_all_but_ranks();
  RankTrace read(std::int32_t rank, std::int64_t& budget) const;

  std::string name_;
  std::unique_ptr<Hdf5File> file_;
  TraceMeta meta_;
  TraceNames names_;
  std::vector<std::int32_t> ranks_;
};

}  // namespace stagecraft
