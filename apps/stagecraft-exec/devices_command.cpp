#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/program/command_line.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft-exec/commands.hpp"
#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/kernels/cpu/openblas.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

struct Device {
  std::string backend;
  std::string name;
  std::string obstacle;  ///< empty if it can run
};

std::string description_of(CudaDevice const& gpu) {
  return std::to_string(gpu.ordinal) + ": " + gpu.name + ", compute capability " +
         std::to_string(gpu.major) + "." + std::to_string(gpu.minor) + ", " +
         std::to_string(gpu.multiprocessors) + " multiprocessors, " + readable_text(gpu.memory);
}

std::vector<Device> devices() {
  Device cpu{"cpu", cpu_description(), ""};
  try {
    require_threaded_openblas();
  } catch (std::exception const& error) {
    cpu.obstacle = error.what();
  }
  std::vector<Device> all{cpu};
  CudaInventory const gpus = find_cuda_devices();
  for (CudaDevice const& gpu : gpus.devices) {
    all.push_back({"cuda", description_of(gpu) + ", " + gpus.versions, gpu.obstacle});
  }
  if (gpus.devices.empty()) all.push_back({"cuda", "", gpus.obstacle});
  return all;
}

int run_devices(CommandLine const& line) {
  auto list = nlohmann::ordered_json::array();
  for (Device const& device : devices()) {
    bool const runs = device.obstacle.empty();
    list.push_back({{"backend", device.backend},
                    {"device", device.name},
                    {"available", runs},
                    {"reason", device.obstacle}});
    if (!line.has("json")) {
      std::cout << device.backend << "  " << (runs ? device.name : "no: " + device.obstacle)
                << '\n';
    }
  }
  if (line.has("json")) {
    std::cout << nlohmann::ordered_json{{"schema", devices_schema}, {"devices", list}}.dump(1)
              << '\n';
  }
  return 0;
}

}  // namespace

Command devices_command() {
  return {.name = "devices",
          .summary = "what can run here, and why not",
          .introduction = R"(usage: stagecraft-exec devices [options]

Lists what `stagecraft-exec run --backend` can run on here, and why not.
)",
          .examples = "  stagecraft-exec devices\n",
          .options = {json_option()},
          .run = run_devices};
}

}  // namespace stagecraft
