#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// What --output needs.
inline constexpr char const* file_to_write = "the file to write";

/// What a command writes into a file.
enum class OutputKind : std::uint8_t {
  trace,     ///< HDF5, of one iteration
  sweep,     ///< HDF5, the results of a sweep
  page,      ///< HTML, a report
  run,       ///< YAML, as all files of configurations
  model,     ///< YAML
  system,    ///< YAML
  software,  ///< YAML
  json,
  csv,          ///< a table of a trace, a reproduction or collectives
  sweep_table,  ///< CSV, the results of a sweep
  gzip,
  pickle,
};

/// The first line of a YAML file that a command writes, by which check_output() knows it again.
std::string origin_line(OutputKind kind, std::string_view command);

/// Refuses a path that must not be written, for all commands alike. What exists there is replaced
/// only if it is empty, or of the same kind and written by this program; a gzip file and a pickle
/// say only that they are one. A file that the command reads is never replaced. Devices and folders
/// are OutputFile's to refuse.
/// \throws CommandLineError  of `option`
void check_output(std::string const& option,
                  std::filesystem::path const& output,
                  OutputKind kind,
                  std::vector<std::filesystem::path> const& inputs = {});

/// The value of --trace, checked by check_output().
/// \throws CommandLineError
std::filesystem::path trace_to_write(std::string const& path);

}  // namespace stagecraft
