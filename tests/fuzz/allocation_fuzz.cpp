#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "libsim/allocator/allocation_replay.hpp"
#include "libsim/allocator/make_allocator.hpp"
#include "libsim/allocator/sequence_file.hpp"
#include "libsim/host/file_error.hpp"

namespace {

using namespace stagecraft;

/// What no allocator may break, whatever it is asked for.
void check(AllocationReplay const& replay, std::int64_t capacity) {
  AllocatorCounters const& end = replay.end;
  bool const is_sound =
      end.allocated >= 0 && end.requested <= end.active && end.allocated <= end.active &&
      end.active <= end.reserved && end.reserved <= end.peak_reserved &&
      end.peak_reserved <= capacity && end.allocated <= end.peak_allocated &&
      end.inactive_split >= 0 && end.inactive_split <= end.reserved - end.active &&
      end.reserved <= end.device_used && (end.ooms > 0) == replay.oom_at.has_value();
  if (!is_sound) std::abort();
}

/// The first line is settings, the rest a sequence.
void read(std::string_view input) {
  constexpr std::int64_t capacity = std::int64_t{1} << 30;
  std::size_t const line = std::min(input.find('\n'), input.size());
  Diagnostics diagnostics;
  AllocatorSettings const settings =
      read_allocator_settings(input.substr(0, line), {}, "", diagnostics);
  if (!diagnostics.problems().empty()) return;
  try {
    AllocationSequence const sequence =
        read_sequence_text(input.substr(std::min(line + 1, input.size())), "fuzz.txt");
    for (AllocatorKind const kind :
         {AllocatorKind::pytorch, AllocatorKind::cuda_async, AllocatorKind::arena}) {
      auto const allocator = make_allocator(kind, settings, capacity);
      check(replay(sequence, *allocator), capacity);
    }
  } catch (InputError const&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  read(std::string_view{reinterpret_cast<char const*>(data), size});
  return 0;
}
