#include "apps/stagecraft-exec/devices_command.hpp"

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/stagecraft/command_line.hpp"
#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/kernels/openblas.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

struct Device {
  std::string backend;
  std::string name;
  std::string obstacle;  ///< empty where it can run
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

}  // namespace

int devices_command(std::vector<std::string> const& arguments) {
  po::options_description options{"options"};
  options.add_options()("json", "print one JSON document")("help,h", "print this");
  po::variables_map const values = parse_options(arguments, options);
  if (values.count("help") > 0) {
    std::cout << "usage: stagecraft-exec devices [options]\n\n"
                 "Lists what `stagecraft-exec run --backend` can run on here, and why not.\n\n"
              << options << "\nexamples:\n  stagecraft-exec devices\n";
    return 0;
  }
  auto list = nlohmann::ordered_json::array();
  for (Device const& device : devices()) {
    bool const runs = device.obstacle.empty();
    list.push_back({{"backend", device.backend},
                    {"device", device.name},
                    {"available", runs},
                    {"reason", device.obstacle}});
    if (values.count("json") == 0) {
      std::cout << device.backend << "  " << (runs ? device.name : "no: " + device.obstacle)
                << '\n';
    }
  }
  if (values.count("json") > 0) {
    std::cout << nlohmann::ordered_json{{"devices", list}}.dump(1) << '\n';
  }
  return 0;
}

}  // namespace stagecraft
