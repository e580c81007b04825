#include <fmt/chrono.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "apps/program/output_paths.hpp"
#include "apps/stagecraft-exec/commands.hpp"
#include "apps/stagecraft-exec/device_choice.hpp"
#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/calibration/clock_watch.hpp"
#include "libexec/calibration/collective_measurement.hpp"
#include "libexec/calibration/kernel_measurement.hpp"
#include "libexec/calibration/measurement.hpp"
#include "libexec/comm/cuda/nccl_world.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft {
namespace {

/// Makes the system file of a device from measurements, for every constant with its source.
class SystemMaker {
 public:
  /// For the CPU, which the rank threads of a process share, so nothing has to be assumed.
  explicit SystemMaker(DeviceChoice const& device);
  /// For a GPU. Constants that cannot be measured here are assumed to be those of `like`.
  SystemMaker(DeviceChoice const& device, System const& like);

  /// Measures all kernels, matrix products last, which take longest. Reports progress on standard
  /// error. Calls `save` whenever there is more in the system.
  void measure(Precision precision, std::function<void()> const& save);
  /// On a CPU, measures collectives and messages between rank threads. On a GPU, measures how much
  /// a concurrent copy slows matrix products; with several GPUs, NCCL's collectives and messages.
  void measure_communication();

  System const& system() const { return system_; }
  /// Says so, in the system and in what is returned, if the machine was busy meanwhile.
  std::string note_busy();

 private:
  void start(DeviceChoice const& device);
  void measure_links();
  void measure_flash_efficiency(Precision precision);
  /// Returns the most FLOP per second of all products.
  double measure_products(Precision precision, std::function<void()> const& save);
  void set_neutral_constants();
  /// How the clock moves while the device runs layers; empty if nobody says it.
  std::string clock_in_layers(DeviceLoad const& load);
  /// Says how it moved since then, too, in the source and on standard error. Pre: there is clock_.
  void note_clock(Precision precision, std::string const& in_layers);

  DeviceChoice device_;
  std::string source_;
  System system_;
  bool has_flash_efficiency_ = false;
  SteadyMedians medians_;
  std::unique_ptr<ClockWatch> clock_;  ///< null on a CPU, and if a GPU's clock is not known
};

constexpr int ranks_of_collectives = 2;
constexpr int ranks_per_node = 1024;  ///< rank threads of one process all share its memory

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::chrono::system_clock::now()));
}

template <typename Value>
void set(Sourced<Value>& constant, Value value, std::string const& source) {
  constant.value = value;
  constant.source = source;
  constant.fitted = "";
}

/// Takes a constant from another system, with a source that says that it is assumed.
template <typename Value>
void assume(Sourced<Value>& constant, std::string const& system) {
  constant.source = std::string{assumed_source} + system + ": " + constant.source;
}

std::unique_ptr<Backend> backend_for(DeviceChoice const& device, Precision precision) {
  return device.parts().make_backend({.types = {activation_type(precision)}});
}

/// The device for measuring other kernels, whose products need not be timed.
DeviceChoice with_first_products(DeviceChoice device) {
  device.choices.reset();
  return device;
}

SystemMaker::SystemMaker(DeviceChoice const& device) : device_{device} {
  start(device);
  set(system_.accelerator.multiprocessors, 1, "by definition: kernels are measured as a whole");
  struct sysinfo facts {};
  ::sysinfo(&facts);
  set(system_.accelerator.memory, Bytes{static_cast<std::int64_t>(facts.totalram) * facts.mem_unit},
      "sysinfo(2)");
  set(system_.node.accelerators, ranks_per_node, "rank threads of one process share its memory");
  set_neutral_constants();
}

SystemMaker::SystemMaker(DeviceChoice const& device, System const& like)
    : device_{device}, system_{like} {
  start(device);
  CudaDevice const facts = find_cuda_devices().devices.at(static_cast<std::size_t>(device.ordinal));
  clock_ = std::make_unique<ClockWatch>(facts.address);
  if (!clock_->obstacle().empty()) {
    std::cerr << "the clock is not known: " << clock_->obstacle() << '\n';
    clock_.reset();
  }
  set(system_.accelerator.multiprocessors, facts.multiprocessors, "cudaGetDeviceProperties");
  set(system_.accelerator.memory, facts.memory, "cudaGetDeviceProperties");
  assume(system_.accelerator.peak, like.name);
  Node& node = system_.node;
  assume(node.accelerators, like.name);
  for (Sourced<CollectiveCost>* const cost :
       {&node.all_reduce, &node.all_gather, &node.reduce_scatter, &node.p2p}) {
    if (!cost->source.empty()) assume(*cost, like.name);
  }
  if (!like.node.collectives.source.empty()) assume(node.collectives, like.name);
  assume(system_.network.bandwidth, like.name);
  assume(system_.network.efficiency, like.name);
  assume(system_.network.latency, like.name);
  Calibration& calibration = system_.calibration;
  for (Sourced<double>* const fraction :
       {&calibration.gemm_efficiency, &calibration.gemm_small_tile,
        &calibration.flash_forward_efficiency, &calibration.flash_backward_efficiency,
        &calibration.stream_efficiency, &calibration.dropout_efficiency,
        &calibration.network_slowdown}) {
    assume(*fraction, like.name);
  }
  for (Sourced<Seconds>* const time :
       {&calibration.gemm_tile_prologue, &calibration.kernel_launch,
        &calibration.p2p_synchronisation, &calibration.iteration_overhead}) {
    assume(*time, like.name);
  }
}

void SystemMaker::start(DeviceChoice const& device) {
  source_ = "stagecraft-exec calibrate " + std::string{program_version()} + " on " + device.name;
  if (device.kind == DeviceKind::cpu) {
    source_ += ", " + std::to_string(device.cpu.threads) + " of them per rank";
  }
  source_ += ", " + today();
  system_.name = "this machine";
  system_.validated = false;
  system_.accelerator.name = device.name;
  MeasuredDevice& measured = system_.measured.emplace();
  measured.gemm.source = source_;
  measured.kernels.source = source_;
}

void SystemMaker::measure(Precision precision, std::function<void()> const& save) {
  std::cerr << name_of(precision) << ": kernels but matrix products\n";
  auto& kernels = system_.measured->kernels.value[precision];
  kernels = measure_kernels(with_first_products(device_).parts(), precision);
  // A GPU keeps its data sheet's rates; a CPU has none.
  bool const has_data_sheet = device_.kind == DeviceKind::cuda;
  if (has_data_sheet) {
    measure_flash_efficiency(precision);
  } else {
    double const add = kernels.at(OpKind::add).bandwidth.value;
    system_.accelerator.bandwidth.value.value =
        std::max(system_.accelerator.bandwidth.value.value, add);
    system_.accelerator.bandwidth.source = "adding two tensors; " + source_;
  }
  save();
  double const best = measure_products(precision, save);
  if (has_data_sheet) return;
  system_.accelerator.peak.value[precision] = {best};
  system_.accelerator.peak.source = "fastest product of the grid below; " + source_;
}

double SystemMaker::measure_products(Precision precision, std::function<void()> const& save) {
  std::cerr << name_of(precision) << ": matrix products\n";
  auto const backend = backend_for(device_, precision);
  Bytes& workspace = system_.calibration.workspace.value;
  workspace = std::max(workspace, backend->workspace());
  system_.calibration.workspace.source = "declared by the kernels";
  MeasurementScale const scale = measurement_scale(device_.kind);
  DeviceLoad load;
  std::string clocks;
  if (device_.kind == DeviceKind::cuda) {
    load = layer_load(with_first_products(device_).parts(), scale, precision);
    clocks = clock_in_layers(load);
  }
  double best = 1;
  auto const take = [&](GemmForm form, GemmGrid grid) {
    for (FlopsPerSecond const rate : grid.rates) best = std::max(best, rate.value);
    system_.measured->gemm.value[precision][form] = std::move(grid);
    save();
  };
  measure_gemm(*backend, precision, scale, VirtualClock{device_.cpu.threads == 1}, medians_, take,
               load);
  if (clock_) note_clock(precision, clocks);
  return best;
}

std::string SystemMaker::clock_in_layers(DeviceLoad const& load) {
  if (!clock_) return {};
  constexpr double warming = 1;  // second; a choice: some hundred samples of the clock, each time
  load(warming);
  clock_->take();
  load(warming);
  return clock_text(clock_->take(), clock_->limits());
}

void SystemMaker::note_clock(Precision precision, std::string const& in_layers) {
  std::string const in_products = clock_text(clock_->take(), clock_->limits());
  // NVML knows some devices of which it reads no clock, as parts of a GPU.
  if (in_layers.empty() || in_products.empty()) return;
  std::string const text = in_layers + " in layers, " + in_products + " among products";
  std::cerr << name_of(precision) << ": clock of multiprocessors " << text << '\n';
  system_.measured->gemm.source += "; " + std::string{name_of(precision)} + ": " + text;
}

std::string SystemMaker::note_busy() {
  std::string text = medians_.busy_text();
  if (!text.empty()) system_.measured->gemm.source += "; " + text;
  return text;
}

/// There is one number for all precisions: that of the first one that uses tensor cores.
void SystemMaker::measure_flash_efficiency(Precision precision) {
  auto const peak = system_.accelerator.peak.value.find(precision);
  bool const is_narrow = element_size(activation_type(precision)) == 2;
  if (has_flash_efficiency_ || !is_narrow || peak == system_.accelerator.peak.value.end()) return;
  std::cerr << name_of(precision) << ": flash attention\n";
  FlashRates const rates = measure_flash(with_first_products(device_).parts(), precision);
  std::string const source = "of the peak in " + std::string{name_of(precision)} + "; " + source_;
  set(system_.calibration.flash_forward_efficiency, rates.forward.value / peak->second.value,
      source);
  set(system_.calibration.flash_backward_efficiency, rates.backward.value / peak->second.value,
      source);
  has_flash_efficiency_ = true;
}

void SystemMaker::measure_communication() {
  if (device_.kind == DeviceKind::cuda) {
    std::cerr << "copies within the device\n";
    auto const backend = backend_for(device_, Precision::bf16);
    set(system_.accelerator.bandwidth, DeviceCopies{*backend}.bandwidth(),
        "a copy within the device, bytes read and written; " + source_);
    measure_links();
    return;
  }
  std::cerr << "collectives between threads\n";
  auto const collective = [&](Sourced<CollectiveCost>& cost, OpKind kind) {
    set(cost, measure_thread_collective(kind, ranks_of_collectives, medians_), source_);
  };
  collective(system_.node.all_reduce, OpKind::all_reduce);
  collective(system_.node.all_gather, OpKind::all_gather);
  collective(system_.node.reduce_scatter, OpKind::reduce_scatter);
  set(system_.node.p2p, measure_thread_message(medians_), source_);
}

/// Links stay assumed if there is only one GPU, if a GPU cannot take part, or without NCCL.
void SystemMaker::measure_links() {
  std::vector<CudaDevice> const devices = find_cuda_devices().devices;
  auto const gpus = static_cast<int>(devices.size());
  bool const can_all = std::all_of(devices.begin(), devices.end(), [](CudaDevice const& device) {
    return device.obstacle.empty();
  });
  if (gpus < 2 || !can_all || !can_measure_nccl()) return;
  std::cerr << "collectives between " << gpus << " GPUs\n";
  NcclCosts const costs = measure_nccl(gpus);
  std::string const source = "NCCL among " + std::to_string(gpus) + " GPUs; " + source_;
  system_.node.collectives = {};  // they would take precedence
  set(system_.node.all_reduce, costs.all_reduce, source);
  set(system_.node.all_gather, costs.all_gather, source);
  set(system_.node.reduce_scatter, costs.reduce_scatter, source);
  set(system_.node.p2p, costs.message, "from GPU 0 to GPU 1; " + source);
}

/// Constants that measured kernels make unnecessary, or that a single machine does not have.
void SystemMaker::set_neutral_constants() {
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
  // The host costs of a software stack are those of a framework that queues kernels.
  constexpr double without_host = 1000;  // the most that a system file may say
  set(system_.node.host_speed, without_host, "neutral: a rank calls its kernels itself");
  set(calibration.workspace, Bytes{0}, "declared by the kernels");
  set(system_.network.bandwidth, BytesPerSecond{1e9}, "no network: one machine");
  set(system_.network.efficiency, 1.0, "no network: one machine");
  set(system_.network.latency, Seconds{0}, "no network: one machine");
}

std::vector<Precision> read_precisions(CommandLine const& line) {
  std::vector<Precision> precisions;
  for (std::string const& word : line.values_of("precision")) {
    precisions.push_back(*value_named<Precision>(word));
  }
  if (precisions.empty()) precisions.push_back(Precision::fp32);
  return precisions;
}

SystemMaker make_system_maker(DeviceChoice const& device, CommandLine const& line) {
  bool const has_like = line.has("like");
  if (device.kind == DeviceKind::cpu) {
    if (has_like) throw CommandLineError{"--like", "without a GPU", "with one"};
    return SystemMaker{device};
  }
  std::string const like = line.needed(
      "like", "a system file whose links and network to assume, as configs/systems/h200.yaml");
  return SystemMaker{device, load_system_file(like)};
}

int run_calibrate(CommandLine const& line) {
  std::string const path = line.needed("output", file_to_write);
  std::vector<Precision> const precisions = read_precisions(line);
  check_output("--output (-o)", path, OutputKind::system, {line.find("like").value_or("")});
  OutputFile output{path};
  std::string const path_so_far = path + ".so_far";
  if (can_measure_nccl()) prepare_nccl();
  SystemMaker maker = make_system_maker(choose_device(line), line);
  maker.measure_communication();
  auto const text = [&] {
    return origin_line(OutputKind::system, "calibrate") + yaml_text(to_json(maker.system()));
  };
  for (Precision const precision : precisions)
    maker.measure(precision, [&] { write_output(path_so_far, text()); });
  if (std::string const busy = maker.note_busy(); !busy.empty()) {
    std::cerr << "warning: " << busy << "; predictions with " << path
              << " can be as far off. Calibrate again when nothing else runs.\n";
  }
  output.write(text());
  output.finish();
  std::filesystem::remove(path_so_far);
  return 0;
}

}  // namespace

Command calibrate_command() {
  return {.name = "calibrate",
          .summary = "measure this machine into a system file with sources",
          .introduction = R"(usage: stagecraft-exec calibrate -o SYSTEM.yaml [options]

Measures this machine's CPU or GPU with the executor's own kernels: matrix products on a
grid of shapes, every other kernel at several sizes; on a CPU also collectives between
threads. What something else on the machine disturbs is measured again, and a warning says if
that does not help. Until the end, SYSTEM.yaml.so_far has what is measured. The system file
makes `stagecraft simulate` predict what this machine does. What one GPU cannot measure, links
and network, is taken from the system file that --like names.
)",
          .examples = R"(  stagecraft-exec calibrate -o here.yaml
  stagecraft-exec calibrate -o h200.yaml --backend cuda --like configs/systems/h200.yaml --precision bf16
  stagecraft-exec calibrate -o here.yaml --precision bf16 --precision fp32
)",
          .options = joined_options(
              {{{.name = "output",
                 .letter = 'o',
                 .value = Value::file("SYSTEM.yaml"),
                 .description = "the system file to write"},
                {.name = "precision",
                 .value = Value::word_of<Precision>(),
                 .may_repeat = true,
                 .description = "fp16, bf16, fp32 (the default) or fp64; may be repeated"},
                {.name = "like",
                 .value = Value::file("SYSTEM.yaml"),
                 .description = "cuda: a system file with the links and network of this machine"}},
               device_options()}),
          .run = run_calibrate};
}

}  // namespace stagecraft
