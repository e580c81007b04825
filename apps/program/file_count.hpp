#pragma once

#include <cstddef>
#include <string>

namespace stagecraft {

/// The files of a command line as a message says them: no file, 1 file, 2 files.
inline std::string file_count(std::size_t files) {
  if (files == 0) return "no file";
  return std::to_string(files) + (files == 1 ? " file" : " files");
}

}  // namespace stagecraft
