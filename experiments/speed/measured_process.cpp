#include "experiments/speed/measured_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

namespace {

double seconds(timeval const& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// File actions that send standard output to nowhere.
class NoOutput {
 public:
  NoOutput() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  NoOutput(NoOutput const&) = delete;
  NoOutput(NoOutput&&) = delete;
  NoOutput& operator=(NoOutput const&) = delete;
  NoOutput& operator=(NoOutput&&) = delete;
  ~NoOutput() { posix_spawn_file_actions_destroy(&actions_); }
  posix_spawn_file_actions_t const* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

}  // namespace

ProcessSeconds measure_process(std::vector<std::string> const& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  NoOutput const no_output;

  auto const begin = std::chrono::steady_clock::now();
  pid_t child = 0;
  if (posix_spawn(&child, arguments[0], no_output.get(), nullptr, arguments.data(), environ) != 0) {
    throw std::runtime_error("could not run '" + words[0] + "'");
  }
  int status = 0;
  rusage used{};
  if (wait4(child, &status, 0, &used) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error("'" + words[0] + "' failed");
  }
  std::chrono::duration<double> const wall = std::chrono::steady_clock::now() - begin;
  return {.wall = wall.count(), .cpu = seconds(used.ru_utime) + seconds(used.ru_stime)};
}
