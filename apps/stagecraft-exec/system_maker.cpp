#include "apps/stagecraft-exec/system_maker.hpp"

#include <fmt/chrono.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/calibration/collective_measurement.hpp"
#include "libexec/calibration/device_copies.hpp"
#include "libexec/calibration/gemm_measurement.hpp"
#include "libexec/calibration/kernel_measurement.hpp"
#include "libexec/calibration/nccl_measurement.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/model/model_names.hpp"

namespace stagecraft {
namespace {

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

}  // namespace

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

void SystemMaker::measure(Precision precision) {
  std::cerr << name_of(precision) << ": matrix products\n";
  auto const backend = backend_for(device_, precision);
  auto forms = measure_gemm(*backend, precision, measurement_scale(device_.kind),
                            VirtualClock{device_.cpu.threads == 1});
  double best = 1;
  for (auto const& [form, grid] : forms) {
    for (FlopsPerSecond const rate : grid.rates) best = std::max(best, rate.value);
  }
  system_.measured->gemm.value[precision] = std::move(forms);
  std::cerr << name_of(precision) << ": other kernels\n";
  system_.measured->kernels.value[precision] =
      measure_kernels(with_first_products(device_).parts(), precision);
  Bytes& workspace = system_.calibration.workspace.value;
  workspace = std::max(workspace, backend->workspace());
  system_.calibration.workspace.source = "declared by the kernels";
  // A GPU keeps its data sheet's peak, to which MFU refers; a CPU has none.
  if (device_.kind == DeviceKind::cuda) return measure_flash_efficiency(precision);
  system_.accelerator.peak.value[precision] = {best};
  system_.accelerator.peak.source = "fastest product of the grid below; " + source_;
  double const add = system_.measured->kernels.value[precision].at(OpKind::add).bandwidth.value;
  system_.accelerator.bandwidth.value.value =
      std::max(system_.accelerator.bandwidth.value.value, add);
  system_.accelerator.bandwidth.source = "adding two tensors; " + source_;
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
    set(cost, measure_thread_collective(kind, ranks_of_collectives), source_);
  };
  collective(system_.node.all_reduce, OpKind::all_reduce);
  collective(system_.node.all_gather, OpKind::all_gather);
  collective(system_.node.reduce_scatter, OpKind::reduce_scatter);
  set(system_.node.p2p, measure_thread_message(), source_);
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
  set(calibration.workspace, Bytes{0}, "declared by the kernels");
  set(system_.network.bandwidth, BytesPerSecond{1e9}, "no network: one machine");
  set(system_.network.efficiency, 1.0, "no network: one machine");
  set(system_.network.latency, Seconds{0}, "no network: one machine");
}

}  // namespace stagecraft
