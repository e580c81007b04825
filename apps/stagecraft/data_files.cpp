#include "apps/stagecraft/data_files.hpp"

#include <filesystem>
#include <utility>

#include "apps/program/command_line.hpp"
#include "apps/program/file_count.hpp"

namespace stagecraft {

std::vector<DataFile> read_data_files(std::vector<std::string> const& paths) {
  if (paths.empty()) {
    throw CommandLineError{"DATA.csv", file_count(0), "one or more data files"};
  }
  for (std::string const& path : paths) {
    std::string const ending = std::filesystem::path{path}.extension().string();
    if (ending != ".yaml" && ending != ".yml") continue;
    throw CommandLineError{
        "DATA.csv", "'" + printable(path) + "', a run file without a measurement",
        "data files (CSV), a measured run a row; for one run file, `stagecraft fit RUN.yaml "
        "--measured TIME` with what its iteration took, such as 12.9s"};
  }
  std::vector<DataFile> files;
  std::vector<Problem> problems;
  for (std::string const& path : paths) {
    try {
      files.emplace_back(std::filesystem::path{path});
    } catch (ConfigError const& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  }
  if (!problems.empty()) throw ConfigError{std::move(problems)};
  return files;
}

}  // namespace stagecraft
