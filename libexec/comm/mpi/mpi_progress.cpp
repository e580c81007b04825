#include "libexec/comm/mpi/mpi_progress.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {
namespace {

/// On MPI_COMM_WORLD, which has no other messages.
constexpr int failure_tag = 1;
/// A report may list live tensors; it is cut off at this length.
constexpr std::size_t most_bytes = std::size_t{64} << 10;

void end_job(int exit_code, std::string const& reason) {
  std::fputs(reason.c_str(), stderr);  // std::cerr is silent on all ranks but the first
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

using namespace std::chrono_literals;

/// The number of consecutive polls without progress after which the thread sleeps between polls. A
/// message from a rank with a core of its own arrives sooner.
constexpr int eager_looks = 50;
constexpr std::chrono::microseconds pause = 50us;
/// While no operation is in flight, the thread still polls for failures of others and for signals.
constexpr std::chrono::milliseconds idle_pause = 20ms;
/// Longer than MpiFailureReport waits for rank 0.
constexpr std::chrono::seconds rank0_timeout = 5s;

/// Set by SIGTERM.
std::atomic<bool> is_told_to_end = false;
static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers may take no locks");

extern "C" void note_signal(int /*signal*/) { is_told_to_end = true; }

class MpiCall final : public MpiOperation {
 public:
  explicit MpiCall(std::function<void()> const& work) : work_{work} {}
  Progress advance() override {
    try {
      work_();
    } catch (...) {
      error = std::current_exception();
    }
    return Progress::done;
  }
  std::string description() const override { return "all processes, between iterations"; }
  std::exception_ptr error;

 private:
  std::function<void()> const& work_;
};

}  // namespace

MpiFailureListener::MpiFailureListener() : text_(most_bytes) {
  check(MPI_Irecv(text_.data(), static_cast<int>(text_.size()), MPI_BYTE, MPI_ANY_SOURCE,
                  failure_tag, MPI_COMM_WORLD, &request_));
}

MpiFailureListener::~MpiFailureListener() {
  if (request_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&request_);
  MPI_Wait(&request_, MPI_STATUS_IGNORE);
}

MpiOperation::Progress MpiFailureListener::advance() {
  int is_here = 0;
  MPI_Status status;
  int const result = MPI_Test(&request_, &is_here, &status);
  if (result != MPI_SUCCESS || is_here == 0) return Progress::none;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  int exit_code = 0;
  std::memcpy(&exit_code, text_.data(), sizeof exit_code);
  end_job(exit_code, {reinterpret_cast<char const*>(text_.data()) + sizeof exit_code,
                      static_cast<std::size_t>(bytes) - sizeof exit_code});
  return Progress::done;
}

MpiFailureReport::MpiFailureReport(int rank, int exit_code, std::string const& reason)
    : rank_{rank},
      exit_code_{exit_code},
      reason_{reason.substr(0, most_bytes - sizeof exit_code)},
      text_(sizeof exit_code + reason_.size()),
      deadline_{std::chrono::steady_clock::now() + std::chrono::seconds{2}} {
  std::memcpy(text_.data(), &exit_code, sizeof exit_code);
  std::memcpy(text_.data() + sizeof exit_code, reason_.data(), reason_.size());
}

MpiOperation::Progress MpiFailureReport::advance() {
  if (rank_ == 0 || std::chrono::steady_clock::now() > deadline_) end_job(exit_code_, reason_);
  if (is_sent_) {
    int is_done = 0;  // MPI sends long texts only inside of its calls
    if (request_ != MPI_REQUEST_NULL) MPI_Test(&request_, &is_done, MPI_STATUS_IGNORE);
    return Progress::none;
  }
  is_sent_ = true;
  MPI_Isend(text_.data(), static_cast<int>(text_.size()), MPI_BYTE, 0, failure_tag, MPI_COMM_WORLD,
            &request_);
  return Progress::none;
}

void check(int status, char const* caller) {
  if (status == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  throw CommunicationError{"MPI: " + text + " (in " + caller + ")"};
}

MpiProgress::MpiProgress() : thread_{[this] { own_mpi(); }} {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return is_started_ || failure_; });
  if (!failure_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(failure_);
}

MpiProgress::~MpiProgress() {
  {
    std::scoped_lock const lock{mutex_};
    must_stop_ = true;
    is_abandoned_ = std::uncaught_exceptions() > 0;
  }
  wake_.notify_all();
  thread_.join();
}

void MpiProgress::add(std::shared_ptr<MpiOperation> operation) {
  {
    std::scoped_lock const lock{mutex_};
    incoming_.push_back(std::move(operation));
    ++unfinished_;
  }
  wake_.notify_all();
}

void MpiProgress::wait(MpiOperation const& operation) {
  std::unique_lock lock{mutex_};
  awaited_ = &operation;
  changed_.wait(lock, [&] { return operation.is_done_ || failure_; });
  awaited_ = nullptr;
  if (!operation.is_done_) std::rethrow_exception(failure_);
}

void MpiProgress::run(std::function<void()> const& work) {
  {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return unfinished_ == 0 || failure_; });
    if (failure_) std::rethrow_exception(failure_);
  }
  auto const call = std::make_shared<MpiCall>(work);
  add(call);
  wait(*call);
  if (call->error) std::rethrow_exception(call->error);
}

void MpiProgress::fail(int exit_code, std::string const& reason) {
  add(std::make_shared<MpiFailureReport>(rank_, exit_code, reason));
  std::this_thread::sleep_for(rank0_timeout);
  // The thread that owns MPI is blocked inside MPI; the launcher notices that this process ends.
  std::fputs(reason.c_str(), stderr);
  std::_Exit(exit_code);
}

void MpiProgress::own_mpi() {
  try {
    start_mpi();
  } catch (...) {
    std::scoped_lock const lock{mutex_};
    failure_ = std::current_exception();
    changed_.notify_all();
    return;
  }
  {
    std::scoped_lock const lock{mutex_};
    is_started_ = true;
  }
  changed_.notify_all();
  loop();
  if (is_abandoned_) {
    // The launcher ends the other processes when this one ends without MPI_Finalize.
    static_cast<void>(listener_.release());
    return;
  }
  listener_.reset();
  MPI_Finalize();
}

void MpiProgress::start_mpi() {
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  if (provided < MPI_THREAD_FUNNELED) {
    throw CommunicationError{"this MPI does not support MPI_THREAD_FUNNELED"};
  }
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  std::signal(SIGTERM, note_signal);
  if (rank_ == 0) listener_ = std::make_unique<MpiFailureListener>();
}

void MpiProgress::loop() {
  int looks = 0;
  while (true) {
    {
      std::unique_lock lock{mutex_};
      auto const has_work = [&] { return !incoming_.empty() || must_stop_; };
      if (!active_.empty() && looks > eager_looks) {
        wake_.wait_for(lock, pause, has_work);
      } else if (active_.empty()) {
        wake_.wait_for(lock, idle_pause, has_work);
      }
      if (is_abandoned_ || (must_stop_ && incoming_.empty() && active_.empty())) return;
      looks = incoming_.empty() ? looks + 1 : 0;
      std::move(incoming_.begin(), incoming_.end(), std::back_inserter(active_));
      incoming_.clear();
    }
    if (is_told_to_end) end_as_told();
    if (advance_all()) {
      looks = 0;
    } else {
      std::this_thread::yield();
    }
  }
}

void MpiProgress::end_as_told() {
  {
    std::scoped_lock const lock{mutex_};
    if (awaited_ != nullptr) {
      std::string const text = "rank " + std::to_string(rank_) + ": ended while it waited for " +
                               awaited_->description() + "\n";
      std::fputs(text.c_str(), stderr);
    }
  }
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
  std::_Exit(EXIT_FAILURE);  // not reached: the signal ends the process
}

bool MpiProgress::advance_all() {
  std::vector<std::shared_ptr<MpiOperation>> going_on;
  std::vector<std::shared_ptr<MpiOperation>> done;
  std::exception_ptr error;
  bool has_moved = false;
  if (listener_) listener_->advance();
  for (auto const& operation : active_) {
    try {
      MpiOperation::Progress const progress = operation->advance();
      has_moved = has_moved || progress != MpiOperation::Progress::none;
      (progress == MpiOperation::Progress::done ? done : going_on).push_back(operation);
    } catch (...) {
      error = std::current_exception();
      abandoned_.push_back(operation);
    }
  }
  if (done.empty() && !error) return has_moved;
  active_ = std::move(going_on);
  {
    std::scoped_lock const lock{mutex_};
    for (auto const& operation : done) operation->is_done_ = true;
    unfinished_ -= done.size();
    if (error && !failure_) failure_ = error;
  }
  changed_.notify_all();
  return true;
}

}  // namespace stagecraft
