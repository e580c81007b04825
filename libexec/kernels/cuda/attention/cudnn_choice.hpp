#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "libexec/kernels/kernel_call.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"
#include "libsim/units/units.hpp"

/// Whether cuDNN computes flash attention in place of this library's kernels. Needs neither CUDA
/// nor cuDNN to compile.
namespace stagecraft {

/// How a process uses cuDNN for attention, shared by its ranks. Thread-safe.
class CudnnChoice {
 public:
  /// How cuDNN adds up the gradient of q.
  enum class Sums : std::uint8_t {
    any_order,  ///< with atomics: its last bits differ from run to run
    in_order,   ///< the same bits every time; on Hopper workspace grows with the square of s
  };

  /// `folder`: that of libcudnn.so.9; empty: where the dynamic linker looks. `say` is given each
  /// reason why a kernel of this library runs instead, once.
  CudnnChoice(Sums sums, std::string folder, std::function<void(std::string const&)> say);

  Sums sums() const { return sums_; }

  /// The library as dlopen() gives it, which stays open; null, which is said, if there is none.
  void* library();

  void say_once(std::string const& reason);

 private:
  Sums sums_;
  std::string folder_;
  std::function<void(std::string const&)> say_;
  std::mutex mutex_;
  std::set<std::string> said_;
  bool was_sought_ = false;
  void* library_ = nullptr;
};

/// Why cuDNN is not given a call, in one line; empty if it is. cuDNN itself may refuse more.
std::string cudnn_obstacle(ElementType type, FlashSizes const& sizes, double dropout);

/// The workspace of cuDNN for a backward on Hopper: a sum per query; dk and dv of each query head
/// if heads share keys; and the gradient of q in fp32 or, in order, that of the scores in 16 bits,
/// whose rows and columns fill tiles of 64 x 128. Forward takes 256 bytes.
/// Source: what cuDNN 9.19 answers for compute capability 9.0.
Bytes cudnn_workspace(FlashSizes const& sizes, CudnnChoice::Sums sums);

/// The largest workspace of the calls that cuDNN is given.
Bytes cudnn_workspace(KernelNeeds const& needs, CudnnChoice::Sums sums);

}  // namespace stagecraft
