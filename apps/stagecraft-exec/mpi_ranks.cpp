#include "apps/stagecraft-exec/mpi_ranks.hpp"

#include <algorithm>
#include <iostream>
#include <streambuf>

#include "apps/stagecraft/command_line.hpp"
#include "apps/stagecraft/program.hpp"
#include "libexec/memory/counting_allocator.hpp"

namespace stagecraft {
namespace {

constexpr int does_not_fit = 3;

/// Takes everything and keeps nothing.
class Nowhere : public std::streambuf {
 protected:
  int_type overflow(int_type character) override { return traits_type::not_eof(character); }
  std::streamsize xsputn(char const* /*text*/, std::streamsize count) override { return count; }
};

/// As long as it lives, a stream leads nowhere.
class Silence {
 public:
  explicit Silence(std::ostream& stream) : stream_{stream}, usual_{stream.rdbuf(&nowhere_)} {}
  ~Silence() { stream_.rdbuf(usual_); }
  Silence(Silence const&) = delete;
  Silence(Silence&&) = delete;
  Silence& operator=(Silence const&) = delete;
  Silence& operator=(Silence&&) = delete;

 private:
  Nowhere nowhere_;
  std::ostream& stream_;
  std::streambuf* usual_;
};

int run_silently(std::function<int(MpiSession&)> const& command, MpiSession& session) {
  Silence const output{std::cout};
  Silence const errors{std::cerr};
  return command(session);
}

}  // namespace

bool asks_for_mpi(std::vector<std::string> const& arguments) {
  if (std::find(arguments.begin(), arguments.end(), "--ranks=mpi") != arguments.end()) return true;
  auto const option = std::find(arguments.begin(), arguments.end(), "--ranks");
  return option != arguments.end() && option + 1 != arguments.end() && *(option + 1) == "mpi";
}

int on_mpi_ranks(std::function<int(MpiSession&)> const& command) {
  MpiSession session{last_words};
  try {
    return session.rank() == 0 ? command(session) : run_silently(command, session);
  } catch (...) {
    session.fail(std::current_exception());
  }
}

void require_processes(MpiSession* session, TrainingConfig const& config) {
  if (session == nullptr) throw CommandLineError{"--ranks: write the option out: --ranks mpi"};
  ParallelLayout const& layout = config.parallel;
  int const ranks = world_size(layout);
  if (session->size() == ranks) return;
  throw CommandLineError{
      "--ranks mpi: found " + std::to_string(session->size()) +
      (session->size() == 1 ? " process" : " processes") + "; accepted: " + std::to_string(ranks) +
      ", the ranks of the plan (tensor " + std::to_string(layout.tensor) + ", pipeline " +
      std::to_string(layout.pipeline) + ", data " + std::to_string(layout.data) +
      "), as mpirun -n " + std::to_string(ranks) + " starts them"};
}

LastWords last_words(std::exception_ptr const& error) {
  constexpr char const* who = "stagecraft-exec run";
  try {
    std::rethrow_exception(error);
  } catch (MemoryLimitError const& problem) {
    return {does_not_fit, std::string{who} + ": " + problem.what()};
  } catch (...) {
    Complaint const complaint = complaint_about(error, who);
    return {complaint.exit_code, complaint.text};
  }
}

}  // namespace stagecraft
