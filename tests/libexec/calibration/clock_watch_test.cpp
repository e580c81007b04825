#include "libexec/calibration/clock_watch.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

namespace stagecraft::clock_watch_test {
namespace {

constexpr auto device = "00000000:17:00.0";  // that of fake_nvml.cpp

TEST_CASE("how a clock moved is said with its median, and with what it could be", "[calibration]") {
  std::vector<ClockSample> const samples{{1980, 300}, {1290, 700}, {1650, 655.4}};
  REQUIRE(clock_text(samples, {1980, 700}) ==
          "1290 to 1980 MHz, 1650 in the median, of 1980; 655 W in the median, of 700");
  REQUIRE(clock_text({}, {1980, 700}).empty());
}

TEST_CASE("the clock of a device is sampled while something else runs", "[calibration]") {
  ClockWatch watch{device, STAGECRAFT_FAKE_NVML};
  REQUIRE(watch.obstacle().empty());
  REQUIRE(watch.limits().megahertz == 1980);
  REQUIRE(watch.limits().watts == Approx(700));
  std::vector<ClockSample> all = watch.take();
  while (all.size() < 5) {  // a sample each 10 ms, besides those of take()
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    std::vector<ClockSample> const more = watch.take();
    REQUIRE(more.size() >= 2);
    all.insert(all.end(), more.begin(), more.end());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    REQUIRE(all[i].megahertz == all[0].megahertz - 10.0 * static_cast<double>(i));
    REQUIRE(all[i].watts == Approx(655.4));
  }
}

TEST_CASE("without NVML, or for a device that it does not know, there are no samples",
          "[calibration]") {
  ClockWatch absent{device, "libno-such-nvml.so.1"};
  REQUIRE(absent.obstacle().find("libno-such-nvml.so.1") != std::string::npos);
  REQUIRE(absent.take().empty());
  ClockWatch unknown{"00000000:18:00.0", STAGECRAFT_FAKE_NVML};
  REQUIRE(unknown.obstacle() == "nvmlDeviceGetHandleByPciBusId_v2 returned 6");
  REQUIRE(unknown.take().empty());
}

}  // namespace
}  // namespace stagecraft::clock_watch_test
