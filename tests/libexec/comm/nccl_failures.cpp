// A job of emulated devices that NCCL connects, in which one rank goes wrong.
//
// usage: nccl_failures WHAT RANK, as each of several processes with torchrun's variables
//   kill      the rank is killed in the middle of an iteration
//   throw     it fails there
//   stop      its host does nothing more there
//   absent    it ends before it meets the others
//   late      it meets the others, but never comes to NCCL
//   disagree  it has another plan
//   nothing   none goes wrong

#include <chrono>
#include <csignal>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "libexec/backends/cuda_backend.hpp"
#include "libexec/comm/cuda/nccl_world.hpp"
#include "libexec/comm/process_environment.hpp"
#include "libexec/executor/job.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;

/// What a peer is waited for: briefly only where one does not come.
std::chrono::seconds timeout_for(std::string const& trouble) {
  bool const is_waited_for = trouble == "stop" || trouble == "absent" || trouble == "late";
  return is_waited_for ? 4s : 60s;
}

void go_wrong(std::string const& what) {
  if (what == "kill") std::raise(SIGKILL);
  if (what == "throw") throw std::runtime_error{"the device is on fire"};
  if (what == "stop") std::this_thread::sleep_for(1h);
}

TrainingConfig config_for(std::string const& what) {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel = {.tensor = 2, .pipeline = 2};
  if (what == "disagree") config.model.ffn_hidden = config.model.hidden = 32;
  return config;
}

/// `what`: this rank's part in it.
void run(std::string const& what, std::chrono::seconds timeout, LaunchedProcess& session) {
  TrainingPlan const plan = make_plan(as_settled(config_for(what)));
  auto const tokens = synthetic_tokens(plan.config.model.vocabulary, 7);
  ExecutionParts const parts{
      .make_backend = [](KernelNeeds const& needs) { return make_cuda_backend(needs, 0); },
      .device = DeviceKind::cuda,
      .tokens = tokens.get()};
  ExecutionOptions options{.steps = 2};
  options.on_op = [&](RankContext const&, Op const& op, KernelCall const&) {
    if (op.phase == Phase::input_gradient) go_wrong(what);
  };
  execute_on_processes(
      plan, parts, options, session, [&](TrainingPlan const& of, JobClock const& /*clock*/) {
        if (what == "late") std::this_thread::sleep_for(1h);
        return make_nccl_world(
            of, session, {.timeout = timeout, .rendezvous = {.address = session.place().address}});
      });
  if (session.rank() == RankId{0}) std::cout << "all is well\n";
}

ErrorReport report_of(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& problem) {
    return {7, std::string{"the end: "} + problem.what() + '\n'};
  }
}

int run_process(std::string const& trouble, std::string const& rank) {
  ProcessPlace const place = find_process({}, from_environment);
  bool const is_wrong = std::to_string(place.rank) == rank;
  if (is_wrong && trouble == "absent") return 1;
  std::chrono::seconds const timeout = timeout_for(trouble);
  LaunchedProcess session{place, report_of};
  try {
    run(is_wrong ? trouble : "nothing", timeout, session);
    return 0;
  } catch (...) {
    session.fail(std::current_exception());
  }
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    stagecraft::prepare_nccl();
    return stagecraft::run_process(argv[1], argv[2]);
  } catch (std::exception const& error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
}
