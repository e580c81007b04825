#include "apps/stagecraft-exec/device_choice.hpp"

#include <algorithm>
#include <iostream>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/kernels/cuda/device_error.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"
#include "libsim/model/low_precision.hpp"

namespace stagecraft {

namespace {

constexpr int most_threads = 1024;
constexpr int most_devices = 1024;

/// The first of these options that the command line has; empty if it has none.
std::string given_among(CommandLine const& line, std::vector<char const*> const& options) {
  for (char const* const option : options) {
    if (line.is_given(option)) return option;
  }
  return {};
}

std::string name_of(CudaDevice const& device, CudaInventory const& inventory) {
  return device.name + ", " + inventory.versions;
}

/// Null: attention is our kernels'.
std::shared_ptr<CudnnChoice> cudnn_choice(CommandLine const& line) {
  std::string const& attention = line.value("attention");
  std::optional<std::string> const folder = line.find("cudnn");
  if (attention == "own") {
    if (folder) throw CommandLineError{"--cudnn", "with --attention own", "with cudnn"};
    return nullptr;
  }
  return std::make_shared<CudnnChoice>(
      attention == "cudnn" ? CudnnChoice::Sums::any_order : CudnnChoice::Sums::in_order,
      folder.value_or(""), [](std::string const& reason) {
        std::cerr << "attention by our kernels: " << reason << '\n';
      });
}

}  // namespace

ExecutionParts DeviceChoice::parts() const {
  ExecutionParts parts;
  parts.device = kind;
  if (kind == DeviceKind::cuda) {
    parts.make_backend = [device = ordinal, measured = choices,
                          attention = cudnn](KernelNeeds const& needs) {
      return make_cuda_backend(needs, device, measured, attention);
    };
  } else {
    parts.make_backend = [options = cpu](KernelNeeds const& needs) {
      return make_cpu_backend(needs, options);
    };
  }
  return parts;
}

std::vector<Option> device_options() {
  return {
      {.name = "backend",
       .value = Value::word({"auto", "cpu", "cuda"}),
       .fallback = "auto",
       .description = "cpu, cuda, or auto: cuda if there is a GPU"},
      {.name = "device",
       .value = Value::text("N"),
       .fallback = "0",
       .description = "which GPU; all rank threads share it"},
      {.name = "algorithms",
       .value = Value::word({"first", "fastest"}),
       .fallback = "first",
       .description = "cuda: for products, cuBLASLt's first choice, or the fastest of its first "
                      "hundred, timed once per shape"},
      {.name = "attention",
       .value = Value::word({"own", "cudnn", "cudnn-in-order"}),
       .fallback = "own",
       .description = "cuda: flash attention by our kernels, or by cuDNN for the calls that it "
                      "takes; in order: its gradients have the same bits every time, with "
                      "workspace that grows with the square of the sequence"},
      {.name = "cudnn",
       .value = Value::text("DIR"),
       .description = "cuda: the folder of libcudnn.so.9, if the linker's path has none"},
      {.name = "blas-threads",
       .value = Value::text("N"),
       .fallback = "1",
       .description = "cpu: threads of each rank's kernels"},
      {.name = "gemm",
       .value = Value::word({"openblas", "plain"}),
       .fallback = "openblas",
       .description =
           "cpu: openblas, or plain: slow, but the order of sums is independent of shapes"}};
}

DeviceChoice choose_device(CommandLine const& line,
                           std::string const& cpu_only,
                           std::optional<int> local_rank) {
  std::string const& backend = line.value("backend");
  DeviceChoice choice;
  choice.ordinal = line.whole_number("device", 0, most_devices);
  choice.cpu.threads = line.whole_number("blas-threads", 1, most_threads);
  choice.cpu.gemm = line.value("gemm") == "plain" ? GemmKind::plain : GemmKind::openblas;
  if (line.value("algorithms") == "fastest") choice.choices = make_product_choices();
  choice.cudnn = cudnn_choice(line);
  choice.name = cpu_description();
  std::string const cpu_option = given_among(line, {"blas-threads", "gemm"});
  if (backend == "cuda" && !cpu_only.empty()) {
    throw CommandLineError{"--backend", "'cuda'", "auto, cpu", cpu_only};
  }
  if (backend == "cuda" && !cpu_option.empty()) {
    throw CommandLineError{"--" + cpu_option, "with --backend cuda", "on the CPU"};
  }
  std::string const cuda_option = given_among(line, {"device", "algorithms", "attention", "cudnn"});
  auto const cpu_choice = [&] {
    if (cuda_option.empty()) return choice;
    throw CommandLineError{"--" + cuda_option, "without a GPU", "on one"};
  };
  if (backend == "cpu" || !cpu_only.empty() || !cpu_option.empty()) return cpu_choice();

  CudaInventory const inventory = find_cuda_devices();
  std::string obstacle = inventory.obstacle;
  auto const count = static_cast<int>(inventory.devices.size());
  bool const is_of_process = local_rank && !line.is_given("device");
  if (is_of_process && count > 1) choice.ordinal = *local_rank;
  if (obstacle.empty() && choice.ordinal >= count) {
    std::string const found = is_of_process
                                  ? "nothing, and local rank " + std::to_string(*local_rank)
                                  : "'" + line.value("device") + "'";
    throw CommandLineError{"--device", found, "0 to " + std::to_string(count - 1)};
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

std::string cpu_only_because_of(TrainingConfig const& config) {
  ModelConfig const& model = config.model;
  std::int64_t const largest = std::max(model.head_dim, value_dim(model));
  if (model.attention == Attention::flash && largest > most_cuda_flash_elements) {
    return "with attention: flash and heads of " + std::to_string(largest) + " elements (at most " +
           std::to_string(most_cuda_flash_elements) + " have a CUDA kernel)";
  }
  if (config.low_precision.recipe != Recipe::none) {
    return "with low_precision: " + std::string{name_of(config.low_precision.recipe)} +
           " (what quantises has no CUDA kernel)";
  }
  return {};
}

}  // namespace stagecraft
