#include <atomic>
#include <cstring>

// NVML with one device, at 0000:17:00.0, whose clock falls at each sample: the functions that
// ClockWatch calls, with the numbers of nvml.h.

namespace {

constexpr int success = 0;
constexpr int not_found = 6;         // NVML_ERROR_NOT_FOUND
constexpr int invalid_argument = 2;  // NVML_ERROR_INVALID_ARGUMENT
constexpr int multiprocessors = 1;   // NVML_CLOCK_SM
int device = 0;
std::atomic<unsigned> samples{0};

int clock_of(void* of, int kind, unsigned* value, unsigned megahertz) {
  if (of != &device || kind != multiprocessors) return invalid_argument;
  *value = megahertz;
  return success;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return success; }
int nvmlShutdown() { return success; }
int nvmlDeviceGetHandleByPciBusId_v2(char const* address, void** found) {
  if (std::strcmp(address, "00000000:17:00.0") != 0) return not_found;
  *found = &device;
  return success;
}
int nvmlDeviceGetMaxClockInfo(void* of, int kind, unsigned* megahertz) {
  return clock_of(of, kind, megahertz, 1980);
}
int nvmlDeviceGetClockInfo(void* of, int kind, unsigned* megahertz) {
  return clock_of(of, kind, megahertz, 1980 - 10 * samples++);
}
int nvmlDeviceGetPowerUsage(void* of, unsigned* milliwatts) {
  *milliwatts = 655400;
  return of == &device ? success : invalid_argument;
}
int nvmlDeviceGetEnforcedPowerLimit(void* of, unsigned* milliwatts) {
  *milliwatts = 700000;
  return of == &device ? success : invalid_argument;
}
}
