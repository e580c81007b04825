#include "apps/stagecraft/whole_file.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace stagecraft {

WholeFile::WholeFile(std::filesystem::path path)
    : path_{std::move(path)}, partial_{path_.string() + ".partial"} {
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) {
    throw std::runtime_error{"could not write '" + path_.string() + "': it is a folder"};
  }
  errno = 0;
  file_.open(partial_, std::ios::binary);
  if (!file_) {
    throw std::runtime_error{"could not write '" + partial_.string() +
                             "': " + std::strerror(errno)};
  }
}

WholeFile::~WholeFile() {
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void WholeFile::write(std::string const& text) {
  errno = 0;
  file_ << text;
  file_.close();
  if (!file_) {
    throw std::runtime_error{"could not write '" + partial_.string() +
                             "': " + std::strerror(errno)};
  }
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (error) {
    throw std::runtime_error{"could not write '" + path_.string() + "': " + error.message()};
  }
}

}  // namespace stagecraft
