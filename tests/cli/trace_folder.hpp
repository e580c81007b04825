#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cli/run_program.hpp"

namespace stagecraft {

/// A folder with traces that `stagecraft simulate` wrote; removed with everything in it.
class TraceFolder {
 public:
  TraceFolder()
      : folder_{std::filesystem::temp_directory_path() /
                ("stagecraft-traces-" + std::to_string(getpid()))} {
    std::filesystem::create_directory(folder_);
  }
  TraceFolder(TraceFolder const&) = delete;
  TraceFolder(TraceFolder&&) = delete;
  TraceFolder& operator=(TraceFolder const&) = delete;
  TraceFolder& operator=(TraceFolder&&) = delete;
  ~TraceFolder() { std::filesystem::remove_all(folder_); }

  /// Simulates a file of configs/paper into `name`.
  void record(std::string const& name, std::string const& config, std::string const& more = "") {
    ProgramResult const result =
        run_stagecraft("simulate '" STAGECRAFT_SOURCE_DIR "/configs/paper/" + config +
                       ".yaml' --trace " + path(name) + " " + more);
    INFO(result.errors);
    REQUIRE(result.exit_code == 0);
  }

  std::string path(std::string const& name) const { return (folder_ / name).string(); }

  std::string text(std::string const& name) const {
    std::ifstream file{path(name), std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

  void write(std::string const& name, std::string const& text) const {
    std::ofstream{path(name), std::ios::binary} << text;
  }

  bool has(std::string const& name) const { return std::filesystem::exists(path(name)); }

  std::size_t files() const {
    auto const entries = std::filesystem::directory_iterator{folder_};
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace stagecraft
