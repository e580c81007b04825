#include "tests/cli/run_program.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace stagecraft {

namespace {

ProgramResult run_shell(std::string const& command) {
  auto const errors = std::filesystem::temp_directory_path() /
                      ("stagecraft-cli-" + std::to_string(getpid()) + ".errors");
  FILE* const pipe = popen(("( " + command + " ) 2>" + errors.string()).c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error{"could not run: " + command};
  ProgramResult result;
  std::array<char, 4096> buffer{};
  for (std::size_t count = 0; (count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    result.output.append(buffer.data(), count);
  }
  int const status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream file{errors};
  result.errors.assign(std::istreambuf_iterator<char>{file}, {});
  std::filesystem::remove(errors);
  return result;
}

}  // namespace

ProgramResult run_stagecraft(std::string const& arguments, std::string const& before) {
  return run_shell(before + " '" STAGECRAFT_PROGRAM "' " + arguments);
}

ProgramResult run_stagecraft_exec(std::string const& arguments, std::string const& before) {
  return run_shell(before + " '" STAGECRAFT_EXEC_PROGRAM "' " + arguments);
}

ProgramResult run_stagecraft_on_terminal(std::string const& arguments, std::string const& before) {
  // script(1) gives its command a terminal; it is in Debian's essential bsdutils.
  return run_shell("script -qec \"" + before + " '" STAGECRAFT_PROGRAM "' " + arguments +
                   "\" /dev/null </dev/null");
}

}  // namespace stagecraft
