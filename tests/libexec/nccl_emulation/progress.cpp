#include "tests/libexec/nccl_emulation/progress.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/libexec/cuda_emulation/device.hpp"

namespace stagecraft::nccl_emulation {
namespace {

using emulation::Device;

constexpr std::chrono::milliseconds interval{1};
/// Few, so that most is still done when somebody waits, and in a random order.
constexpr std::size_t most_entries = 64;

class Progress {
 public:
  /// Before the device in the order of destruction.
  Progress() : device_{Device::get()}, thread_{[this] { keep_going(); }} {}
  ~Progress() {
    {
      std::scoped_lock const lock{mutex_};
      must_stop_ = true;
    }
    stop_.notify_all();
    thread_.join();
  }
  Progress(Progress const&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress const&) = delete;
  Progress& operator=(Progress&&) = delete;

 private:
  void keep_going() {
    std::unique_lock lock{mutex_};
    while (!stop_.wait_for(lock, interval, [&] { return must_stop_; })) {
      device_.call([](Device& device) {
        if (!device.schedule.awaits_arrivals()) return;
        device.schedule.run_at_most(static_cast<int>(device.order.below(most_entries)));
      });
    }
  }

  Device& device_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool must_stop_ = false;
  std::thread thread_;
};

}  // namespace

void keep_streams_going() { static Progress const progress; }

}  // namespace stagecraft::nccl_emulation
