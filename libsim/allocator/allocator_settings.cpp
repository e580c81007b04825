#include "libsim/allocator/allocator_settings.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
/// Sizes above are as good as no limit, and sums of a few of them do not overflow.
constexpr std::int64_t most_mebibytes = std::int64_t{1} << 40;
constexpr std::int64_t largest_small_segment = 10;  // MiB, below which large segments are packed

bool is_mark(char c) { return c == ',' || c == ':' || c == '[' || c == ']'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Keys, values and marks; spaces are dropped, also inside of words.
std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> tokens;
  bool continues = false;
  for (char const c : text) {
    if (is_space(c)) continue;
    if (is_mark(c)) {
      tokens.emplace_back(1, c);
      continues = false;
    } else if (continues) {
      tokens.back() += c;
    } else {
      tokens.emplace_back(1, c);
      continues = true;
    }
  }
  return tokens;
}

bool is_power_of_two(std::int64_t n) {
  return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n));
}

/// A setting as it was written: its key and the tokens of its value.
struct Setting {
  std::string key;
  std::vector<std::string> value;  ///< of a list, what stands between the brackets
  bool is_list = false;
};

/// Reads PYTORCH_CUDA_ALLOC_CONF as PyTorch does: a list of key:value, of which the last of a key
/// holds. The size of large segments is read before all others, because limits depend on it. A
/// problem goes to `diagnostics` and leaves the setting's default.
class SettingsReader {
 public:
  SettingsReader(std::string_view text,
                 Place const& place,
                 std::string_view key,
                 Diagnostics& diagnostics)
      : place_{place}, key_{key}, diagnostics_{diagnostics} {
    if (!split(tokens_of(text))) settings_.clear();
  }

  AllocatorSettings read() {
    for (Setting const& setting : settings_) {
      if (setting.key == "large_segment_size_mb") read_segment_size(setting);
    }
    read_.max_non_split_rounding = read_.large_segment_size;
    for (Setting const& setting : settings_) read(setting);
    return read_;
  }

 private:
  using Reader = void (SettingsReader::*)(Setting const&);

  static std::map<std::string, Reader> const& readers() {
    static std::map<std::string, Reader> const map{
        {"backend", &SettingsReader::read_backend},
        {"expandable_segments", &SettingsReader::read_expandable},
        {"expandable_segments_reserve", &SettingsReader::read_reservation},
        {"expandable_segments_reserve_by_class", nullptr},
        {"garbage_collection_threshold", &SettingsReader::read_threshold},
        {"graph_capture_record_stream_reuse", nullptr},
        {"large_segment_size_mb", nullptr},  // before the others
        {"max_non_split_rounding_mb", &SettingsReader::read_rounding},
        {"max_split_size_mb", &SettingsReader::read_split_size},
        {"per_process_memory_fraction", &SettingsReader::read_fraction},
        {"pinned_free_catch_all", nullptr},
        {"pinned_max_register_threads", nullptr},
        {"pinned_num_register_threads", nullptr},
        {"pinned_reserve_segment_size_mb", nullptr},
        {"pinned_use_background_threads", nullptr},
        {"pinned_use_cuda_host_register", nullptr},
        {"release_lock_on_cudamalloc", nullptr},
        {"roundup_power2_divisions", &SettingsReader::read_divisions},
        {"throw_on_cudamalloc_oom", nullptr},
    };
    return map;
  }

  void refuse(std::string const& setting, std::string const& found, std::string const& accepted) {
    std::string path = key_;
    if (!setting.empty()) path += (path.empty() ? "" : ".") + printable(setting);
    diagnostics_.add({.place = place_,
                      .key = path,
                      .found = found.empty() ? "" : "'" + printable(found) + "'",
                      .accepted = accepted,
                      .stands_alone = true});
  }

  bool refused(std::string const& setting, std::string const& found, std::string const& accepted) {
    refuse(setting, found, accepted);
    return false;
  }

  /// False if the text is not a list of settings.
  bool split(std::vector<std::string> const& tokens) {
    std::size_t i = 0;
    auto const is = [&](char const* mark) { return i < tokens.size() && tokens[i] == mark; };
    auto const found = [&] { return i < tokens.size() ? tokens[i] : std::string{}; };
    while (i < tokens.size()) {
      Setting setting;
      if (is_mark(tokens[i].front())) return refused("", tokens[i], "a key, as in key:value");
      setting.key = tokens[i++];
      if (!is(":")) return refused(setting.key, found(), "a colon and a value, as in key:value");
      ++i;
      if (is("[")) {
        setting.is_list = true;
        for (++i; i < tokens.size() && !is("]"); ++i) setting.value.push_back(tokens[i]);
        if (!is("]")) return refused(setting.key, "", "a closing bracket");
      } else if (i == tokens.size() || is_mark(tokens[i].front())) {
        return refused(setting.key, found(), "a value");
      } else {
        setting.value.push_back(tokens[i]);
      }
      ++i;
      settings_.push_back(std::move(setting));
      if (i == tokens.size()) return true;
      if (!is(",")) return refused(settings_.back().key, found(), "a comma, and the next setting");
      ++i;
    }
    return true;
  }

  void read(Setting const& setting) {
    auto const found = readers().find(setting.key);
    if (found == readers().end()) {
      std::vector<std::string> names;
      for (auto const& [name, reader] : readers()) names.push_back(name);
      std::string accepted = joined(names);
      accepted += did_you_mean(setting.key, names);
      return refuse("", setting.key, accepted);
    }
    if (found->second == nullptr) return;
    bool const takes_list = setting.key == "roundup_power2_divisions";
    if (setting.is_list && !takes_list) return refuse(setting.key, "[", "one value");
    (this->*found->second)(setting);
  }

  /// A size in MiB of at least `least`, in bytes.
  std::optional<std::int64_t> size(Setting const& setting, std::int64_t least) {
    auto const number =
        setting.is_list ? std::nullopt : parse_number<std::int64_t>(setting.value.front());
    if (number && *number >= least) return std::min(*number, most_mebibytes) * mebibyte;
    refuse(setting.key, setting.is_list ? "[" : setting.value.front(),
           "a whole number of MiB from " + std::to_string(least));
    return std::nullopt;
  }

  void read_segment_size(Setting const& setting) {
    if (auto const bytes = size(setting, largest_small_segment + 1)) {
      read_.large_segment_size = *bytes;
    }
  }
  void read_split_size(Setting const& setting) {
    if (auto const bytes = size(setting, read_.large_segment_size / mebibyte)) {
      read_.max_split_size = *bytes;
    }
  }
  void read_rounding(Setting const& setting) {
    if (auto const bytes = size(setting, read_.large_segment_size / mebibyte)) {
      read_.max_non_split_rounding = *bytes;
    }
  }

  void read_backend(Setting const& setting) {
    std::string const& name = setting.value.front();
    if (name == "native") {
      read_.backend = AllocatorSettings::Backend::native;
    } else if (name == "cudaMallocAsync") {
      read_.backend = AllocatorSettings::Backend::cuda_malloc_async;
    } else {
      refuse(setting.key, name, "native, cudaMallocAsync");
    }
  }

  void read_expandable(Setting const& setting) {
    std::string const& word = setting.value.front();
    if (word != "True" && word != "False") return refuse(setting.key, word, "True, False");
    read_.expandable_segments = word == "True";
  }

  void read_reservation(Setting const& setting) {
    std::string text = setting.value.front();
    bool const is_size = text.back() == 'G' || text.back() == 'g';
    if (is_size) text.pop_back();
    auto const number = parse_number<double>(text);
    if (!number || *number <= 0) {
      return refuse(setting.key, setting.value.front(),
                    "a fraction of the device's memory such as 0.5, or a size such as 40G");
    }
    read_.reservation = {!is_size, is_size ? *number * (1 << 30) : *number};
  }

  void read_threshold(Setting const& setting) {
    auto const number = parse_number<double>(setting.value.front());
    if (!number || !(*number > 0 && *number < 1)) {
      return refuse(setting.key, setting.value.front(), "a number above 0 and below 1");
    }
    read_.garbage_collection_threshold = *number;
  }

  void read_fraction(Setting const& setting) {
    auto const number = parse_number<double>(setting.value.front());
    if (!number || !(*number >= 0 && *number <= 1)) {
      return refuse(setting.key, setting.value.front(), "a number from 0 to 1");
    }
    read_.memory_fraction = *number < 1 ? number : std::nullopt;
  }

  void read_divisions(Setting const& setting) {
    if (setting.is_list) return read_division_list(setting);
    auto const number = parse_number<std::int64_t>(setting.value.front());
    if (!number || !is_power_of_two(*number)) {
      return refuse(setting.key, setting.value.front(), "a power of two, or a list [256:1,>:8]");
    }
    read_.power2_divisions.fill(*number);
  }

  /// `256:1,512:2,>:8`: requests from 256 MiB to 512 MiB have one division, and so on. The first
  /// value is also that of all smaller requests, `>` that of all behind the last interval.
  void read_division_list(Setting const& setting) {
    std::vector<std::string> const& list = setting.value;
    auto const refuse_list = [&](std::string const& found) {
      refuse(setting.key, found, "a list of intervals in MiB and divisions, as in [256:1,>:8]");
    };
    auto& divisions = read_.power2_divisions;
    std::size_t last = 0;
    for (std::size_t i = 0; i < list.size(); i += 4) {
      if (i + 2 >= list.size()) return refuse_list("]");
      if (list[i + 1] != ":") return refuse_list(list[i + 1]);
      auto const count = parse_number<std::int64_t>(list[i + 2]);
      if (!count || (*count != 0 && !is_power_of_two(*count))) {
        return refuse(setting.key, list[i + 2], "0, or a power of two, as divisions");
      }
      if (list[i] == ">") {
        std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(last) + 1, divisions.end(),
                  *count);
      } else {
        auto const begin = parse_number<std::int64_t>(list[i]);
        if (!begin || !is_power_of_two(*begin)) {
          return refuse(setting.key, list[i], "an interval: a power of two in MiB, or >");
        }
        last = std::min<std::size_t>(
            static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(*begin))),
            rounding_intervals - 1);
        if (i == 0) {
          std::fill(divisions.begin(), divisions.begin() + static_cast<std::ptrdiff_t>(last),
                    *count);
        }
        divisions.at(last) = *count;
      }
      if (i + 3 < list.size() && list[i + 3] != ",") return refuse_list(list[i + 3]);
    }
  }

  Place const& place_;
  std::string key_;
  Diagnostics& diagnostics_;
  std::vector<Setting> settings_;
  AllocatorSettings read_;
};

}  // namespace

AllocatorSettings read_allocator_settings(std::string_view text,
                                          Place const& place,
                                          std::string_view key,
                                          Diagnostics& diagnostics) {
  return SettingsReader{text, place, key, diagnostics}.read();
}

}  // namespace stagecraft
