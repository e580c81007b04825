#include "apps/stagecraft-exec/device_choice.hpp"

#include <iostream>

#include "apps/stagecraft/command_line.hpp"
#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/kernels/cuda/device_error.hpp"
#include "libexec/kernels/flash_operands.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

constexpr int most_threads = 1024;
constexpr int most_devices = 1024;

/// The first of these options that the command line has; empty where it has none.
std::string given_among(po::variables_map const& values, std::vector<char const*> const& options) {
  for (char const* const option : options) {
    if (!values[option].defaulted()) return option;
  }
  return {};
}

std::string name_of(CudaDevice const& device, CudaInventory const& inventory) {
  return device.name + ", " + inventory.versions;
}

}  // namespace

ExecutionParts DeviceChoice::parts() const {
  ExecutionParts parts;
  parts.device = kind;
  if (kind == DeviceKind::cuda) {
    parts.make_backend = [device = ordinal, measured = choices](RankShare const& share) {
      return make_cuda_backend(share, device, measured);
    };
  } else {
    parts.make_backend = [options = cpu](RankShare const& share) {
      return make_cpu_backend(share, options);
    };
  }
  return parts;
}

void add_device_options(po::options_description& options) {
  auto add = options.add_options();
  auto const text = [](char const* value_name) {
    return po::value<std::string>()->value_name(value_name);
  };
  add("backend", text("auto|cpu|cuda")->default_value("auto"),
      "cpu, cuda, or auto: cuda where there is a GPU");
  add("device", text("N")->default_value("0"), "which GPU; all rank threads share it");
  add("algorithms", text("first|fastest")->default_value("first"),
      "cuda: for products, cuBLASLt's first choice, or the fastest of its first hundred, timed "
      "once "
      "for each shape");
  add("blas-threads", text("N")->default_value("1"), "cpu: threads of each rank's kernels");
  add("gemm", text("openblas|plain")->default_value("openblas"),
      "cpu: openblas, or plain: slow, but sums in one order whatever the shape");
}

DeviceChoice choose_device(po::variables_map const& values,
                           std::string const& cpu_only,
                           std::optional<int> local_rank) {
  auto const value = [&](char const* option) { return values[option].as<std::string>(); };
  std::string const backend = one_of("--backend", value("backend"), {"auto", "cpu", "cuda"});
  DeviceChoice choice;
  choice.ordinal = whole_number("--device", value("device"), 0, most_devices);
  choice.cpu.threads = whole_number("--blas-threads", value("blas-threads"), 1, most_threads);
  choice.cpu.gemm = one_of("--gemm", value("gemm"), {"openblas", "plain"}) == "plain"
                        ? GemmKind::plain
                        : GemmKind::openblas;
  if (one_of("--algorithms", value("algorithms"), {"first", "fastest"}) == "fastest") {
    choice.choices = make_product_choices();
  }
  choice.name = cpu_description();
  std::string const cpu_option = given_among(values, {"blas-threads", "gemm"});
  if (backend == "cuda" && !cpu_only.empty()) {
    throw CommandLineError{"--backend: found 'cuda'; accepted " + cpu_only + ": auto, cpu"};
  }
  if (backend == "cuda" && !cpu_option.empty()) {
    throw CommandLineError{"--" + cpu_option + ": found with --backend cuda; accepted: on the CPU"};
  }
  std::string const cuda_option = given_among(values, {"device", "algorithms"});
  auto const cpu_choice = [&] {
    if (cuda_option.empty()) return choice;
    throw CommandLineError{"--" + cuda_option + ": found without a GPU; accepted: on one"};
  };
  if (backend == "cpu" || !cpu_only.empty() || !cpu_option.empty()) return cpu_choice();

  CudaInventory const inventory = find_cuda_devices();
  std::string obstacle = inventory.obstacle;
  auto const count = static_cast<int>(inventory.devices.size());
  bool const is_of_process = local_rank && values["device"].defaulted();
  if (is_of_process && count > 1) choice.ordinal = *local_rank;
  if (obstacle.empty() && choice.ordinal >= count) {
    std::string const found = is_of_process
                                  ? "nothing, and local rank " + std::to_string(*local_rank)
                                  : "'" + value("device") + "'";
    throw CommandLineError{"--device: found " + found + "; accepted: 0 to " +
                           std::to_string(count - 1)};
  }
  auto const ordinal = static_cast<std::size_t>(choice.ordinal);
  if (obstacle.empty()) obstacle = inventory.devices[ordinal].obstacle;
  if (!obstacle.empty()) {
    if (backend == "cuda") throw DeviceError{"--backend cuda: " + obstacle};
    return cpu_choice();
  }
  choice.kind = DeviceKind::cuda;
  choice.name = name_of(inventory.devices[ordinal], inventory);
  if (backend == "auto") std::cerr << "on " << choice.name << " (--backend cpu for the CPU)\n";
  return choice;
}

std::string cpu_only_because_of(ModelConfig const& model) {
  if (model.attention == Attention::flash && model.head_dim > most_cuda_flash_elements) {
    return "with attention: flash and heads of " + std::to_string(model.head_dim) +
           " elements (at most " + std::to_string(most_cuda_flash_elements) +
           " have a CUDA kernel)";
  }
  return {};
}

}  // namespace stagecraft
