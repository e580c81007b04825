#pragma once

namespace stagecraft {

/// From now on a fork of this process waits until no thread is inside a call, and calls that begin
/// meanwhile wait for the fork. A child so never inherits a lock, a half-made static object or a
/// half-written table of a thread that it does not have. For libraries in processes that fork;
/// programs of our own do not. Calling it again changes nothing.
void make_forks_wait();

/// While it lives, its thread is inside a call. They may be nested.
class InsideCall {
 public:
  InsideCall();
  InsideCall(InsideCall const&) = delete;
  InsideCall(InsideCall&&) = delete;
  InsideCall& operator=(InsideCall const&) = delete;
  InsideCall& operator=(InsideCall&&) = delete;
  ~InsideCall();
};

/// While it lives, its thread counts as outside of any call. A thread makes one when it waits for
/// other threads, because these may have to let a fork pass. Pre: the thread holds no lock that
/// other calls may want.
class OutsideCall {
 public:
  OutsideCall();
  OutsideCall(OutsideCall const&) = delete;
  OutsideCall(OutsideCall&&) = delete;
  OutsideCall& operator=(OutsideCall const&) = delete;
  OutsideCall& operator=(OutsideCall&&) = delete;
  ~OutsideCall();

 private:
  int depth_;  ///< the number of calls that it is outside of
};

/// Lets a fork pass that waits; called now and then by calls that take long.
/// Pre: as of OutsideCall.
void let_forks_pass();

}  // namespace stagecraft
