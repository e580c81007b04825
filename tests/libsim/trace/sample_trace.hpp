#pragma once

#include <hdf5.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// A folder of the test, empty, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder(TemporaryFolder&&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  std::filesystem::path const& path() const { return path_; }
  std::filesystem::path file(std::string const& name) const { return path_ / name; }
  /// Names of what is in it, sorted.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

std::vector<unsigned char> bytes_of(std::filesystem::path const& path);
void write_bytes(std::filesystem::path const& path, std::vector<unsigned char> const& bytes);

/// Ranks 0 and 7 with `rows` ops and half as many states of memory.
Trace sample_trace(std::size_t rows = 6);

/// Writes the sample and lets `change` loose on the open file.
void write_changed_sample(std::filesystem::path const& path,
                          std::function<void(hid_t file)> const& change);

/// Puts a dataset of 64-bit integers in place of `/ranks/0/ops/start`, which has six rows.
/// `properties`: of its creation; released here.
void replace_start(hid_t file, hid_t type, std::vector<hsize_t> const& extents, hid_t properties);

/// Properties of a dataset in chunks.
hid_t chunked(hsize_t elements);

}  // namespace stagecraft
