#pragma once

#include <filesystem>
#include <memory>

#include "libsim/trace/trace.hpp"

namespace stagecraft {

class OutputFile;

/// Writes one trace file, rank by rank, in the format of SCHEMA.md beside this file.
///
/// The file is built in memory, compressed, and appears under its own name only in finish().
/// The same trace gives the same bytes. HDF5 is not thread-safe: one thread of a process at a time.
class TraceWriter {
 public:
  /// Creates `<path>.partial`, so that a path that cannot be written is refused before any work.
  /// \throws OutputError
  TraceWriter(std::filesystem::path const& path, TraceMeta const& meta, TraceNames const& names);
  /// Removes the file if it is not finished.
  ~TraceWriter();
  TraceWriter(TraceWriter const&) = delete;
  TraceWriter(TraceWriter&&) = delete;
  TraceWriter& operator=(TraceWriter const&) = delete;
  TraceWriter& operator=(TraceWriter&&) = delete;

  /// Adds a rank. Pre: its number is new; its columns have equal lengths.
  /// \throws OutputError
  void write(RankTrace const& rank);

  /// Writes `<path>.partial` and renames it to `path`. Nothing can be added afterwards.
  /// \throws OutputError  Then neither of the two exists, unless `path` existed before.
  void finish();

 private:
  class Image;
  std::filesystem::path path_;
  std::unique_ptr<OutputFile> output_;
  std::unique_ptr<Image> image_;
};

/// Writes a whole trace. \throws OutputError
void write_trace(std::filesystem::path const& path, Trace const& trace);

}  // namespace stagecraft
