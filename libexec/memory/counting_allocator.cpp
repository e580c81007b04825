#include "libexec/memory/counting_allocator.hpp"

#include <algorithm>
#include <new>

#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

#ifdef NDEBUG
constexpr bool poisons = false;
#else
constexpr bool poisons = true;
#endif

}  // namespace

std::string to_string(BufferLabel const& label) {
  std::string text = to_string(label.name);
  if (label.layer >= 0) text = "layers." + std::to_string(label.layer) + "." + text;
  if (label.microbatch != no_microbatch) {
    text += " of microbatch " + std::to_string(label.microbatch.value());
  }
  return text;
}

Buffer::~Buffer() {
  if (owner_ != nullptr) owner_->release(*this);
}

CountingAllocator::CountingAllocator(DeviceMemory& memory,
                                     Bytes declared_workspace,
                                     std::int64_t limit)
    : memory_{memory}, workspace_{declared_workspace}, limit_{limit} {}

Buffer CountingAllocator::allocate(BufferLabel const& label,
                                   Category category,
                                   ElementType type,
                                   Shape const& shape) {
  std::int64_t const bytes = shape.elements() * element_size(type);
  if (bytes > limit_ - workspace_.count() - now_.sum()) {
    throw MemoryLimitError{to_string(label) + " (" + readable_text(Bytes{bytes}) +
                           "): does not fit into the limit of " + readable_text(Bytes{limit_}) +
                           " beside " + readable_text(workspace_) + " of workspace" + live_text()};
  }
  Buffer buffer;
  try {
    buffer.data_ = static_cast<std::byte*>(memory_.allocate(static_cast<std::size_t>(bytes)));
  } catch (std::bad_alloc const&) {
    throw MemoryLimitError{to_string(label) + " (" + readable_text(Bytes{bytes}) +
                           "): does not fit, the device has no more memory" + live_text()};
  }
  buffer.owner_ = this;
  buffer.bytes_ = static_cast<std::size_t>(bytes);
  buffer.category_ = category;
  buffer.number_ = next_++;
  if (poisons) memory_.poison(buffer.data_, buffer.bytes_);
  BlockId const block =
      modelled_ == nullptr || bytes == 0 ? no_block : modelled_->allocate(bytes, 0);
  live_.emplace(buffer.number_, Live{label, category, bytes, block});
  now_[category] += bytes;
  if (now_.sum() > peak_) {
    peak_ = now_.sum();
    at_peak_ = now_;
  }
  activation_peak_ = std::max(activation_peak_, now_.activation_sum());
  if (observer_) observer_(now_);
  return buffer;
}

CategoryBytes CountingAllocator::at_peak() const {
  CategoryBytes bytes = at_peak_;
  bytes[Category::workspace] += workspace_.count();
  return bytes;
}

std::string CountingAllocator::live_text() const {
  if (live_.empty()) return "; nothing else is live\n";
  return "; " + readable_text(Bytes{now_.sum()}) + " are live, the largest of them:\n" +
         live_buffers(8);
}

std::string CountingAllocator::live_buffers(std::size_t most) const {
  std::vector<Live> all;
  all.reserve(live_.size());
  for (auto const& [number, live] : live_) all.push_back(live);
  std::stable_sort(all.begin(), all.end(),
                   [](Live const& a, Live const& b) { return a.bytes > b.bytes; });
  std::string text;
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i) {
    text += "  " + readable_text(Bytes{all[i].bytes}) + "  " +
            std::string{name_of(all[i].category)} + "  " + to_string(all[i].label) + "\n";
  }
  if (all.size() > most) text += "  and " + std::to_string(all.size() - most) + " more\n";
  return text;
}

void CountingAllocator::release(Buffer const& buffer) noexcept {
  if (poisons) memory_.poison(buffer.data_, buffer.bytes_);
  memory_.deallocate(buffer.data_, buffer.bytes_);
  auto const live = live_.find(buffer.number_);
  if (live->second.block != no_block) modelled_->free(live->second.block);
  live_.erase(live);
  now_[buffer.category_] -= static_cast<std::int64_t>(buffer.bytes_);
  if (observer_) observer_(now_);
}

}  // namespace stagecraft
