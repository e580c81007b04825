#include "apps/python/bindings/interruptible.hpp"

#include <chrono>
#include <optional>
#include <thread>

#include "apps/python/bindings/text_caster.hpp"

namespace stagecraft::python {

namespace nb = nanobind;

void Work::report(char const* what, double share) {
  std::scoped_lock const lock{mutex_};
  what_ = what;
  share_ = share;
  if (is_unwanted_) throw Interrupted{};
}

void run_interruptibly(nb::object const& progress, std::function<void(Work&)> const& work) {
  using namespace std::chrono_literals;
  Work state;
  std::optional<nb::python_error> error;
  {
    nb::gil_scoped_release const release;
    std::thread worker{[&] {
      Interruptible const interruptible{&state.is_unwanted_};
      std::exception_ptr failure;
      try {
        InsideCall const inside;
        work(state);
      } catch (Interrupted const&) {
        // What interrupted it is thrown below.
      } catch (...) {
        failure = std::current_exception();
      }
      std::scoped_lock const lock{state.mutex_};
      state.failure_ = failure;
      state.is_over_ = true;
      state.changed_.notify_one();
    }};
    std::unique_lock lock{state.mutex_};
    while (!state.changed_.wait_for(lock, 50ms, [&] { return state.is_over_; })) {
      if (error) continue;
      std::string const what = state.what_;
      double const share = state.share_;
      lock.unlock();
      {
        nb::gil_scoped_acquire const acquire;
        try {
          if (PyErr_CheckSignals() != 0) nb::raise_python_error();
          if (!progress.is_none() && !what.empty()) progress(python_text(what), share);
        } catch (nb::python_error& raised) {
          error.emplace(raised);
        }
      }
      lock.lock();
      state.is_unwanted_ = error.has_value();
    }
    lock.unlock();
    worker.join();
  }
  if (error) throw nb::python_error{*error};
  if (state.failure_) std::rethrow_exception(state.failure_);
  // Nobody heard of what was done since the last time, or at all.
  if (!progress.is_none() && !state.what_.empty()) progress(python_text(state.what_), 1.0);
}

}  // namespace stagecraft::python
