#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stagecraft {

/// What --output needs.
inline constexpr char const* file_to_write = "the file to write";

/// \throws CommandLineError  if the output is one of the files that a command reads.
void refuse_input(std::string const& option,
                  std::filesystem::path const& output,
                  std::vector<std::filesystem::path> const& inputs);

/// The value of --trace. An existing file is replaced only if it is an HDF5 file, or empty.
/// \throws CommandLineError
std::filesystem::path trace_to_write(std::string const& path);

/// Refuses to write a result over the trace it is made from.
/// \throws CommandLineError
void refuse_same_file(std::filesystem::path const& output, std::filesystem::path const& trace);

}  // namespace stagecraft
