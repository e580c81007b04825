#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/speed/measured_process.hpp"
#include "libsim/allocator/allocation_replay.hpp"
#include "libsim/allocator/make_allocator.hpp"
#include "libsim/allocator/sequence_file.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {
namespace {

/// A quantity measured several times: wall clock, and the thread's or process's own time.
struct Samples {
  std::vector<double> wall;
  std::vector<double> cpu;

  void sort() {
    std::sort(wall.begin(), wall.end());
    std::sort(cpu.begin(), cpu.end());
  }
  double fastest() const { return wall.front(); }
  double median() const { return wall[wall.size() / 2]; }
  double slowest() const { return wall.back(); }
  double median_cpu() const { return cpu[cpu.size() / 2]; }
};

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Seconds a call, over `samples` stretches of `calls` calls; `call` gets a number that never
/// repeats.
template <typename Call>
Samples measure(int samples, int calls, Call call) {
  Samples result;
  int number = 0;
  for (int sample = 0; sample < samples; ++sample) {
    double const cpu = thread_seconds();
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call(number++);
    std::chrono::duration<double> const wall = std::chrono::steady_clock::now() - begin;
    result.wall.push_back(wall.count() / calls);
    result.cpu.push_back((thread_seconds() - cpu) / calls);
  }
  result.sort();
  return result;
}

std::vector<RecomputePolicy> policies() {
  using enum RecomputeGranularity;
  return {{.granularity = none},
          {.granularity = selective},
          {.granularity = selective, .modules = {"core_attention", "mlp"}},
          {.granularity = selective, .modules = {"core_attention", "layernorm"}},
          {.granularity = full},
          {.granularity = full, .layers = 2},
          {.granularity = full, .method = RecomputeMethod::block}};
}

/// One configuration under another policy and other costs at every call.
class Variations {
 public:
  explicit Variations(RunConfig const& run) : config_{run.training}, system_{run.system} {
    first_bandwidth_ = system_.accelerator.bandwidth.value.value;
  }

  void vary(int number) {
    config_.recompute.front() = policies_[static_cast<std::size_t>(number) % policies_.size()];
    system_.accelerator.bandwidth.value.value = first_bandwidth_ * (1 + 1e-4 * (number % 1009));
    system_.calibration.p2p_synchronisation.value.value = 1e-6 * (number % 97);
  }
  TrainingConfig& config() { return config_; }
  System const& system() const { return system_; }

 private:
  std::vector<RecomputePolicy> policies_ = policies();
  TrainingConfig config_;
  System system_;
  double first_bandwidth_;
};

double chunk_ops(TrainingConfig const& config) {
  return 2.0 * config.parallel.pipeline * config.parallel.interleave *
         static_cast<double>(microbatches(config));
}

void print_predictions(std::filesystem::path const& folder, std::string const& name, double goal) {
  RunConfig const run = load_run_config(folder / (name + ".yaml"), {});
  Variations variations{run};
  int left_out = 0;
  Samples const samples = measure(31, 200, [&](int number) {
    variations.vary(number);
    left_out +=
        predict(as_settled(variations.config()), variations.system()).loops_left_out > 0 ? 1 : 0;
  });
  std::printf("%-14s %8.0f %10.0f %10.0f %10.0f %10.0f %10.0f %8.0f %%\n", name.c_str(),
              chunk_ops(run.training), goal, 1 / samples.slowest(), 1 / samples.median(),
              1 / samples.fastest(), 1 / samples.median_cpu(), 100.0 * left_out / (31 * 200));
}

/// A window of stored microbatches has no steady state: everything is laid out and walked.
void print_full_walks(std::filesystem::path const& folder, std::string const& name) {
  RunConfig const run = load_run_config(folder / (name + ".yaml"), {});
  Variations variations{run};
  Samples const samples = measure(31, 20, [&](int number) {
    variations.vary(number);
    variations.config().recompute.front().store_microbatches.count = 1 + number % 3;
    predict(as_settled(variations.config()), variations.system());
  });
  double const each = 1e9 / chunk_ops(run.training);
  std::printf("%-14s %8.0f %10d %10.1f %10.1f %10.1f %10.1f\n", name.c_str(),
              chunk_ops(run.training), 50, samples.fastest() * each, samples.median() * each,
              samples.slowest() * each, samples.median_cpu() * each);
}

void print_plans(std::filesystem::path const& folder, std::string const& name) {
  RunConfig const run = load_run_config(folder / (name + ".yaml"), {});
  Samples const samples = measure(
      15, 1, [&](int /*number*/) { simulate(make_plan(as_settled(run.training)), run.system); });
  std::printf("%-14s %8.0f %10d %10.2f %10.2f %10.2f %10.2f\n", name.c_str(),
              chunk_ops(run.training), 10, samples.fastest() * 1e3, samples.median() * 1e3,
              samples.slowest() * 1e3, samples.median_cpu() * 1e3);
}

/// `schedule`: another one than the run's, and its chunks per stage; empty: its own.
void print_processes(std::filesystem::path const& folder,
                     std::string const& program,
                     std::string const& name,
                     std::string const& schedule = "",
                     int chunks = 1,
                     int goal = 60) {
  std::vector<std::string> words{program, "simulate", (folder / (name + ".yaml")).string(),
                                 "--json"};
  if (!schedule.empty()) {
    words.insert(words.end(), {"--set", "schedule=" + schedule, "--set",
                               "parallel.interleave=" + std::to_string(chunks)});
  }
  Samples samples;
  for (int i = 0; i < 21; ++i) {
    ProcessSeconds const seconds = measure_process(words);
    samples.wall.push_back(seconds.wall);
    samples.cpu.push_back(seconds.cpu);
  }
  samples.sort();
  std::string const run = name.substr(0, name.find('-')) + " " + schedule;
  std::printf("%-14s %8s %10d %10.1f %10.1f %10.1f %10.1f\n",
              schedule.empty() ? name.c_str() : run.c_str(), "", goal, samples.fastest() * 1e3,
              samples.median() * 1e3, samples.slowest() * 1e3, samples.median_cpu() * 1e3);
}

/// A whole plan search on one thread: thread's own time, as other work on the machine stretches the
/// clock.
void print_search(std::filesystem::path const& folder, std::string const& name) {
  RunConfig const run = load_run_config(folder / (name + ".yaml"), {});
  SearchRequest request;
  request.base = run.training;
  request.system = run.system;
  request.gpus = world_size(run.training.parallel);
  request.global_batch = run.training.batch.global;
  SearchResult result;
  Samples const samples = measure(3, 1, [&](int /*number*/) { result = search_plans(request); });
  auto const plans = static_cast<double>(result.considered);
  std::printf("%-18s %10.0f %10lld %10d %10.0f %10.0f %10.2f\n", name.c_str(), plans,
              static_cast<long long>(result.simulated), 100'000, plans / samples.fastest(),
              plans / samples.median_cpu(), samples.median_cpu());
}

/// The recorded sequences of the allocator, each replayed by PyTorch's on a device that none fills.
void print_replays(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator{folder}) {
    if (entry.path().filename().string().ends_with(".txt.gz")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (std::filesystem::path const& file : files) {
    AllocationSequence const sequence = read_sequence_file(file).sequence;
    Samples const samples = measure(15, 20, [&](int /*number*/) {
      auto const allocator = make_allocator(AllocatorKind::pytorch, {}, unlimited_capacity);
      replay(sequence, *allocator);
    });
    double const events = 1e-6 * static_cast<double>(sequence.events.size());
    std::printf("%-14s %8zu %10d %10.1f %10.1f %10.1f %10.1f\n",
                file.stem().stem().string().c_str(), sequence.events.size(), 5,
                events / samples.slowest(), events / samples.median(), events / samples.fastest(),
                events / samples.median_cpu());
  }
}

/// The whole sweep of nanotron, whose stack says what its framework allocates: every stage of every
/// row is replayed through the allocator.
void print_validation(std::filesystem::path const& folder, std::string const& program) {
  std::filesystem::path const data = folder / "data/nanotron.csv";
  std::ifstream file{data};
  auto const lines = std::count(std::istreambuf_iterator<char>{file}, {}, '\n');
  auto const rows = static_cast<double>(lines - 1);
  Samples samples;
  for (int i = 0; i < 3; ++i) {
    ProcessSeconds const seconds =
        measure_process({program, "validate", data.string(), "--base",
                         (folder / "nanotron.yaml").string(), "--json", "--jobs", "1"});
    samples.wall.push_back(seconds.wall);
    samples.cpu.push_back(seconds.cpu);
  }
  samples.sort();
  std::printf("%-14s %8.0f %10d %10.0f %10.0f %10.0f %10.0f\n", "nanotron", rows, 300,
              rows / samples.slowest(), rows / samples.median(), rows / samples.fastest(),
              rows / samples.median_cpu());
}

/// A sweep as a process on one thread, its files included: what a row takes of CPU time.
void print_sweep(std::filesystem::path const& sweep, double rows, std::string const& program) {
  std::filesystem::path const output =
      std::filesystem::temp_directory_path() / ("speed-" + std::to_string(getpid()) + ".h5");
  Samples samples;
  for (int i = 0; i < 5; ++i) {
    ProcessSeconds const seconds = measure_process(
        {program, "sweep", sweep.string(), "-o", output.string(), "--json", "--jobs", "1"});
    std::filesystem::remove(output);
    samples.wall.push_back(seconds.wall);
    samples.cpu.push_back(seconds.cpu);
  }
  samples.sort();
  std::printf("%-14s %8.0f %10d %10.0f %10.0f %10.0f %10.0f\n", "layouts", rows, 2'000,
              rows / samples.slowest(), rows / samples.median(), rows / samples.fastest(),
              rows / samples.median_cpu());
}

void print_load() {
  double load[3] = {};
  if (getloadavg(load, 3) != 3) return;
  std::printf("load of the machine, 1, 5 and 15 minutes: %.1f %.1f %.1f\n", load[0], load[1],
              load[2]);
}

void print_all(std::filesystem::path const& repository, std::string const& program) {
  std::filesystem::path const folder = repository / "configs/paper";
  std::vector<std::string> const rows{"22b-full",  "22b-present",  "175b-full", "175b-present",
                                      "530b-full", "530b-present", "1t-full",   "1t-present"};
  print_load();
  std::printf(
      "\nconfigurations per second in process, one thread, policy and costs new at every call\n"
      "%-14s %8s %10s %10s %10s %10s %10s %10s\n",
      "", "chunkops", "goal", "slowest", "median", "fastest", "median cpu", "jumped");
  print_predictions(folder, "175b-present", 10'000);
  print_predictions(folder, "530b-present", 1'000);
  print_predictions(folder, "1t-present", 0);
  char const* const columns = "%-14s %8s %10s %10s %10s %10s %10s\n";
  std::printf(
      "\nns per chunk op where there is no steady state (a window of stored microbatches)\n");
  std::printf(columns, "", "chunkops", "goal", "fastest", "median", "slowest", "median cpu");
  for (std::string const name : {"175b-full", "530b-full", "1t-full"})
    print_full_walks(folder, name);
  std::printf("\nms to make a plan and simulate it, in process\n");
  std::printf(columns, "", "chunkops", "goal", "fastest", "median", "slowest", "median cpu");
  for (std::string const& name : rows) print_plans(folder, name);
  std::printf("\nms of a whole process, stagecraft simulate --json\n");
  std::printf(columns, "", "", "goal", "fastest", "median", "slowest", "median cpu");
  for (std::string const& name : rows) print_processes(folder, program, name);
  std::printf("the same with schedules that split the backward, and with 1F1B\n");
  print_processes(folder, program, "175b-present", "zb_h1", 1, 25);
  print_processes(folder, program, "175b-present", "zbv", 2, 25);
  print_processes(folder, program, "530b-present", "zb_h1", 1, 60);
  print_processes(folder, program, "175b-present", "1f1b", 1, 60);
  std::printf(
      "\nplans considered per second by a search on one thread\n%-18s %10s %10s %10s %10s %10s "
      "%10s\n",
      "", "plans", "simulated", "goal", "fastest", "median cpu", "s of cpu");
  for (std::string const name : {"175b-present", "530b-present-2240"}) print_search(folder, name);
  std::printf("\nmillions of recorded allocator events replayed per second\n");
  char const* const rates = "%-14s %8s %10s %10s %10s %10s %10s\n";
  std::printf(rates, "", "events", "goal", "slowest", "median", "fastest", "median cpu");
  print_replays(repository / "tests/oracle/allocator");
  std::printf("\nmeasured runs validated per second, one thread, all stages replayed\n");
  std::printf(rates, "", "runs", "goal", "slowest", "median", "fastest", "median cpu");
  print_validation(repository / "experiments/validation", program);
  std::printf("\nrows of a sweep per second, one thread (175B)\n");
  std::printf(rates, "", "rows", "goal", "slowest", "median", "fastest", "median cpu");
  print_sweep(repository / "configs/sweeps/layouts.yaml", 600, program);
  print_load();
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: measure_speed REPOSITORY STAGECRAFT\n", stderr);
    return 2;
  }
  try {
    stagecraft::print_all(argv[1], argv[2]);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "measure_speed: %s\n", error.what());
    return 1;
  }
  return 0;
}
