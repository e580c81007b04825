#include "apps/stagecraft-exec/calibrate_command.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <sstream>

#include "apps/stagecraft/command_line.hpp"
#include "libexec/backends/cpu_backend.hpp"
#include "libexec/calibration/collective_measurement.hpp"
#include "libexec/calibration/gemm_measurement.hpp"
#include "libexec/calibration/kernel_measurement.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/model/model_words.hpp"
#include "libsim/trace/output_file.hpp"
#include "libsim/trace/program_version.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr int most_threads = 1024;
constexpr int ranks_of_collectives = 2;
constexpr int ranks_a_node = 1024;  ///< rank threads of one process all share its memory

constexpr char const* introduction =
    "usage: stagecraft-exec calibrate -o SYSTEM.yaml [options]\n\n"
    "Measures this machine's CPU with the executor's own kernels: matrix products on a grid of\n"
    "shapes, every other kernel at several sizes, collectives between threads. The system file\n"
    "makes `stagecraft simulate` predict what `stagecraft-exec run --clock virtual` measures.\n\n";

constexpr char const* examples =
    "\nexamples:\n"
    "  stagecraft-exec calibrate -o here.yaml\n"
    "  stagecraft-exec calibrate -o here.yaml --precision bf16 --precision fp32\n";

po::options_description describe_options() {
  po::options_description options{"options"};
  auto add = options.add_options();
  add("output,o", po::value<std::string>()->value_name("SYSTEM.yaml"), "where to write it");
  add("precision",
      po::value<std::vector<std::string>>()->composing()->value_name(choice_of<Precision>()),
      "fp16, bf16, fp32 (the default) or fp64; may be repeated");
  add("blas-threads", po::value<std::string>()->value_name("N")->default_value("1"),
      "threads of each rank's kernels");
  add("help,h", "print this");
  return options;
}

std::vector<Precision> read_precisions(po::variables_map const& values) {
  if (values.count("precision") == 0) return {Precision::fp32};
  std::vector<Precision> precisions;
  for (std::string const& word : values["precision"].as<std::vector<std::string>>()) {
    auto const precision = parse_word<Precision>(word);
    if (!precision) {
      throw CommandLineError{"--precision: found '" + word +
                             "'; accepted: " + accepted_words<Precision>()};
    }
    precisions.push_back(*precision);
  }
  return precisions;
}

std::string today() {
  std::time_t const now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::ostringstream text;
  constexpr int first_year = 1900;
  text << parts.tm_year + first_year << '-' << (parts.tm_mon < 9 ? "0" : "") << parts.tm_mon + 1
       << '-' << (parts.tm_mday < 10 ? "0" : "") << parts.tm_mday;
  return text.str();
}

/// Takes down what was measured where, for every constant the same.
class SystemMaker {
 public:
  explicit SystemMaker(int threads) : threads_{threads} {
    source_ = "stagecraft-exec calibrate " + std::string{program_version()} + " on " +
              cpu_description() + ", " + std::to_string(threads) + " of them a rank, " + today();
    system_.name = "this machine";
    system_.accelerator.name = cpu_description();
    set(system_.accelerator.multiprocessors, 1, "by definition: kernels are measured as a whole");
    struct sysinfo facts {};
    ::sysinfo(&facts);
    set(system_.accelerator.memory,
        Bytes{static_cast<std::int64_t>(facts.totalram) * facts.mem_unit}, "sysinfo(2)");
    set(system_.node.accelerators, ranks_a_node, "rank threads of one process share its memory");
    MeasuredDevice& measured = system_.measured.emplace();
    measured.gemm.source = source_;
    measured.kernels.source = source_;
    set_neutral_constants();
  }

  void measure(Precision precision) {
    CpuKernelOptions const options{.gemm = GemmKind::openblas, .threads = threads_};
    auto const make_backend = [&](RankShare const& share) {
      return make_cpu_backend(share, options);
    };
    std::cerr << word_of(precision) << ": matrix products\n";
    RankShare share;
    share.shape.model.precision = precision;
    auto const backend = make_backend(share);
    auto forms = measure_gemm(*backend, precision, VirtualClock{threads_ == 1});
    double best = 1;
    for (auto const& [form, grid] : forms) {
      for (FlopsPerSecond const rate : grid.rates) best = std::max(best, rate.value);
    }
    system_.accelerator.peak.value[precision] = {best};
    system_.accelerator.peak.source = "fastest product of the grid below; " + source_;
    system_.measured->gemm.value[precision] = std::move(forms);
    std::cerr << word_of(precision) << ": other kernels\n";
    system_.measured->kernels.value[precision] =
        measure_kernels({.make_backend = make_backend}, precision);
    Bytes& workspace = system_.calibration.workspace.value;
    workspace = std::max(workspace, backend->workspace());
    double const add = system_.measured->kernels.value[precision].at(OpKind::add).bandwidth.value;
    system_.accelerator.bandwidth.value.value =
        std::max(system_.accelerator.bandwidth.value.value, add);
    system_.accelerator.bandwidth.source = "adding two tensors; " + source_;
  }

  void measure_communication() {
    std::cerr << "collectives between threads\n";
    auto const collective = [&](Sourced<CollectiveCost>& cost, OpKind kind) {
      set(cost, measure_thread_collective(kind, ranks_of_collectives), source_);
    };
    collective(system_.node.all_reduce, OpKind::all_reduce);
    collective(system_.node.all_gather, OpKind::all_gather);
    collective(system_.node.reduce_scatter, OpKind::reduce_scatter);
    set(system_.node.p2p, measure_thread_message(), source_);
  }

  System const& system() const { return system_; }

 private:
  template <typename Value>
  static void set(Sourced<Value>& constant, Value value, std::string const& source) {
    constant.value = value;
    constant.source = source;
  }
  /// What measured kernels make unnecessary, or what a single machine does not have.
  void set_neutral_constants() {
    std::string const unused = "neutral: kernels are measured as a whole";
    Calibration& calibration = system_.calibration;
    for (Sourced<double>* const efficiency :
         {&calibration.gemm_efficiency, &calibration.gemm_small_tile,
          &calibration.flash_forward_efficiency, &calibration.flash_backward_efficiency,
          &calibration.stream_efficiency, &calibration.dropout_efficiency}) {
      set(*efficiency, 1.0, unused);
    }
    for (Sourced<double>* const slowdown :
         {&calibration.overlap_slowdown, &calibration.network_slowdown}) {
      set(*slowdown, 0.0, "the virtual clock lends the machine to one rank at a time");
    }
    for (Sourced<Seconds>* const time :
         {&calibration.gemm_tile_prologue, &calibration.kernel_launch,
          &calibration.p2p_synchronisation, &calibration.iteration_overhead}) {
      set(*time, Seconds{0}, unused);
    }
    set(calibration.workspace, Bytes{0}, "declared by the CPU kernels");
    set(system_.network.bandwidth, BytesPerSecond{1e9}, "no network: one machine");
    set(system_.network.efficiency, 1.0, "no network: one machine");
    set(system_.network.latency, Seconds{0}, "no network: one machine");
  }

  int threads_;
  std::string source_;
  System system_;
};

}  // namespace

int calibrate_command(std::vector<std::string> const& arguments) {
  po::options_description const options = describe_options();
  po::variables_map const values = parse_options(arguments, options);
  if (values.count("help") > 0) {
    std::cout << introduction << options << examples;
    return 0;
  }
  if (values.count("output") == 0) {
    throw CommandLineError{"--output: found nothing; accepted: a file to write, as -o here.yaml"};
  }
  std::vector<Precision> const precisions = read_precisions(values);
  OutputFile output{values["output"].as<std::string>()};
  SystemMaker maker{
      whole_number("--blas-threads", values["blas-threads"].as<std::string>(), 1, most_threads)};
  maker.measure_communication();
  for (Precision const precision : precisions) maker.measure(precision);
  output.write(yaml_text(to_json(maker.system())));
  output.finish();
  return 0;
}

}  // namespace stagecraft
