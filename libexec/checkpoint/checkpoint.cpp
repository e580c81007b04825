#include "libexec/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libexec/backends/numbers.hpp"
#include "libexec/checkpoint/checkpoint_file.hpp"
#include "libexec/executor/token_source.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/sha256.hpp"
#include "libsim/model/model_config_reader.hpp"

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";

std::vector<double> read_numbers(Backend& backend, FlatRange const& range) {
  std::vector<std::byte> bytes(range.bytes());
  backend.read(bytes.data(), range.data, bytes.size());
  return decode(bytes, range.type);
}

/// Elements [first, first + count) of a rank's part of a tensor, as rectangles of the part: the
/// rest of a first row, whole rows, the beginning of a last row.
struct Rectangle {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t first = 0;  ///< element of the part
};

std::vector<Rectangle> rectangles(std::int64_t first, std::int64_t count, std::int64_t width) {
  std::vector<Rectangle> cut;
  while (count > 0) {
    std::int64_t const row = first / width;
    std::int64_t const column = first % width;
    bool const is_whole = column == 0 && count >= width;
    std::int64_t const rows = is_whole ? count / width : 1;
    std::int64_t const columns = is_whole ? width : std::min(width - column, count);
    cut.push_back({row, column, rows, columns, first});
    first += rows * columns;
    count -= rows * columns;
  }
  return cut;
}

/// Collects what this rank, and no other, saves.
class ShareWriter {
 public:
  ShareWriter(RankContext const& context, ParameterStore const& store)
      : context_{context}, store_{store} {
    share_.state = context.state;
    share_.model = to_json(context.plan.config.model).dump();
  }

  CheckpointShare take() {
    if (context_.has_copy_of_shards()) return std::move(share_);
    bool const shards = context_.plan.config.sharding.shares_optimizer();
    for (PlacedParameter const& placed : store_.layout()) {
      bool const is_copy = context_.plan.roles.embedding && placed.parameter->tied_embedding &&
                           context_.place.stage > StageId{0};
      if (!is_copy && (shards || is_first_holder(placed))) add(placed);
    }
    return std::move(share_);
  }

 private:
  /// Whether no rank of lower number holds the same part as a replica of this rank.
  bool is_first_holder(PlacedParameter const& placed) const {
    GroupId const holders = context_.plan.holders_of(*placed.parameter);
    return context_.plan.groups.membership(holders, context_.rank).value().member == 0;
  }
  void add(PlacedParameter const& placed) {
    ParameterWindow const window = context_.window(placed);
    for (RowRange const& rows : window.rows) {
      if (rows.is_replica) continue;
      std::int64_t const begin = placed.offset + rows.local * window.columns;
      for (auto const& run : store_.owned(begin, rows.count * window.columns)) {
        std::int64_t const at = static_cast<std::int64_t>(share_.weight.size());
        for (Rectangle const& piece : rectangles(run.first - begin, run.count, window.columns)) {
          share_.pieces.push_back({.name = placed.name(),
                                   .row = rows.whole + piece.row,
                                   .column = window.first_column + piece.column,
                                   .rows = piece.rows,
                                   .columns = piece.columns,
                                   .offset = at + piece.first - (run.first - begin),
                                   .whole_rows = window.whole_rows,
                                   .whole_columns = window.whole_columns});
        }
        append(share_.weight, store_.master(run));
        append(share_.first_moment, store_.part(step_tensor::first_moment, run));
        append(share_.second_moment, store_.part(step_tensor::second_moment, run));
      }
    }
  }
  void append(std::vector<double>& to, FlatRange const& range) const {
    std::vector<double> const numbers = read_numbers(context_.backend, range);
    to.insert(to.end(), numbers.begin(), numbers.end());
  }

  RankContext const& context_;
  ParameterStore const& store_;
  CheckpointShare share_;
};

std::string shape_text(std::int64_t rows, std::int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

void write_text(fs::path const& path, std::string const& text) {
  std::ofstream file{path, std::ios::binary | std::ios::trunc};
  file << text;
  if (!file.flush()) throw OutputError{path, std::strerror(errno)};
}

/// What `latest` says beside a name, so that a damaged one is noticed.
std::string digest_of(std::string const& name) {
  Sha256 digest;
  digest.add(name);
  return digest.hexadecimal();
}

/// The folder in which a checkpoint is written before it is published.
fs::path partial_of(fs::path const& folder) { return folder / "partial"; }

void check(fs::path const& path, std::error_code const& error) {
  if (error) throw OutputError{path, error.message()};
}

/// The steps after which `step-<n>` or `step-<n>.<i>` was saved; -1 for another name.
std::int64_t step_of(std::string const& name) {
  if (!name.starts_with(step_prefix)) return -1;
  std::int64_t step = -1;
  char const* const first = name.data() + step_prefix.size();
  std::from_chars(first, name.data() + name.size(), step);
  return step;
}

/// Makes the checkpoint in `partial` the newest one, and keeps the last `keep` up to its step.
/// Until then the previous one is unchanged, even if it is of the same step. Another run saved
/// those of higher steps: they stay.
void publish(fs::path const& folder, fs::path const& partial, std::string const& step, int keep) {
  std::error_code error;
  std::string name = step;
  for (int i = 2; fs::exists(folder / name, error); ++i) name = step + "." + std::to_string(i);
  fs::rename(partial, folder / name, error);
  check(folder / name, error);
  write_text(folder / "latest.partial", name + "\n" + digest_of(name) + "\n");
  fs::rename(folder / "latest.partial", folder / "latest", error);
  check(folder / "latest", error);
  std::vector<std::pair<std::int64_t, fs::path>> others;
  for (fs::directory_entry const& entry : fs::directory_iterator{folder, error}) {
    std::string const other = entry.path().filename().string();
    if (other != name && step_of(other) >= 0) others.emplace_back(step_of(other), entry.path());
  }
  std::ranges::sort(others, std::greater{});
  int kept = 1;
  for (auto const& [of, path] : others) {
    if (of > step_of(name)) continue;
    bool const is_replaced = of == step_of(name);
    if (is_replaced || kept == keep) {
      fs::remove_all(path, error);
    } else {
      ++kept;
    }
  }
}

/// All files of a checkpoint.
std::vector<std::pair<fs::path, CheckpointShare>> read_shares(fs::path const& folder) {
  std::ifstream latest{folder / "latest"};
  std::string name;
  if (!latest || !std::getline(latest, name)) {
    throw DataError{(folder / "latest").string() +
                    ": found none; accepted: a folder that --save "
                    "has written"};
  }
  std::string digest;  // absent in folders of before
  bool const is_intact = !std::getline(latest, digest) || digest == digest_of(name);
  bool const is_plain = name.starts_with(step_prefix) && name.find('/') == std::string::npos;
  if (!is_plain || !is_intact) {
    throw DataError{(folder / "latest").string() + ": found '" + printable(name) +
                    "'; accepted: step-<n>"};
  }
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_entry const& entry : fs::directory_iterator{folder / name, error}) {
    if (entry.path().extension() == ".h5") paths.push_back(entry.path());
  }
  if (error) throw DataError{(folder / name).string() + ": " + error.message()};
  std::sort(paths.begin(), paths.end());
  std::vector<std::pair<fs::path, CheckpointShare>> shares;
  shares.reserve(paths.size());
  for (fs::path const& path : paths) shares.emplace_back(path, read_checkpoint_file(path));
  if (shares.empty()) throw DataError{(folder / name).string() + ": has no files"};
  for (auto const& [path, share] : shares) {
    if (share.state != shares.front().second.state) {
      throw DataError{path.string() + ": found another step than that of " +
                      shares.front().first.string() + "; accepted: files of one step"};
    }
  }
  return shares;
}

/// Assembles a rank's part of one tensor from pieces of any partition.
class PartReader {
 public:
  PartReader(PlacedParameter const& placed, ParameterWindow const& window)
      : window_{window}, known_(static_cast<std::size_t>(placed.elements())) {
    for (std::vector<double>* part : {&weight, &first_moment, &second_moment}) {
      part->resize(known_.size());
    }
  }

  void take(CheckpointPiece const& piece, CheckpointShare const& share) {
    for (RowRange const& rows : window_.rows) {
      std::int64_t const first = std::max(rows.whole, piece.row);
      std::int64_t const last = std::min(rows.whole + rows.count, piece.row + piece.rows);
      std::int64_t const left = std::max(window_.first_column, piece.column);
      std::int64_t const right =
          std::min(window_.first_column + window_.columns, piece.column + piece.columns);
      for (std::int64_t row = first; row < last; ++row) {
        for (std::int64_t column = left; column < right; ++column) {
          auto const from = static_cast<std::size_t>(
              piece.offset + (row - piece.row) * piece.columns + column - piece.column);
          auto const to = static_cast<std::size_t>(
              (rows.local + row - rows.whole) * window_.columns + column - window_.first_column);
          weight[to] = share.weight[from];
          first_moment[to] = share.first_moment[from];
          second_moment[to] = share.second_moment[from];
          known_[to] = true;
        }
      }
    }
  }

  /// Whether every element but padding was found.
  bool is_whole() const {
    std::int64_t wanted = 0;
    for (RowRange const& rows : window_.rows) wanted += rows.count * window_.columns;
    return std::count(known_.begin(), known_.end(), true) == wanted;
  }

  std::vector<double> weight;
  std::vector<double> first_moment;
  std::vector<double> second_moment;

 private:
  ParameterWindow const& window_;
  std::vector<bool> known_;
};

/// \throws DataError  naming a saved tensor that no stage of the model has.
void require_known(fs::path const& folder, CheckpointShare const& share, TrainingPlan const& plan) {
  std::set<std::string> known;
  for (StagePlan const& stage : plan.stages) {
    for (PlacedParameter const& placed : parameter_layout(plan, stage)) known.insert(placed.name());
  }
  for (CheckpointPiece const& piece : share.pieces) {
    if (known.contains(piece.name)) continue;
    throw DataError{folder.string() + ": found " + piece.name +
                    ", which this model has not; accepted: a checkpoint of this model"};
  }
}

/// Keys of a model that a training may change when it goes on: how it is computed, which data and
/// which regularisation it sees, and what is changed to train on longer sequences.
constexpr std::array<std::string_view, 15> may_change{"sequence",
                                                      "dropout",
                                                      "attention_dropout",
                                                      "attention",
                                                      "softmax_dropout",
                                                      "dropout_mask",
                                                      "precision",
                                                      "causal_mask",
                                                      "loss",
                                                      "loss_coefficient",
                                                      "z_loss",
                                                      "window",
                                                      "rotary_base",
                                                      "vocabulary_multiple",
                                                      "position_rows"};

/// \throws DataError  naming a key in which the model of the checkpoint is another one.
void require_same_model(fs::path const& file, std::string const& saved, ModelConfig const& model) {
  nlohmann::json const found = nlohmann::json::parse(saved, nullptr, false).flatten();
  nlohmann::json const wanted = nlohmann::json(to_json(model)).flatten();
  for (auto const& [pointer, value] : found.items()) {
    std::string key = pointer;
    std::ranges::replace(key, '/', '.');
    bool const is_free = std::ranges::any_of(may_change, [&](std::string_view free) {
      return (key + ".").find("." + std::string{free} + ".") != std::string::npos;
    });
    if (is_free || !wanted.contains(pointer) || wanted[pointer] == value) continue;
    throw DataError{file.string() + ": model" + key + ": found " + value.dump() +
                    "; accepted: " + wanted[pointer].dump() + ", of a checkpoint of this model"};
  }
}

}  // namespace

void require_checkpoint_folder(fs::path const& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  check(folder, error);
  require_writable(folder / "latest");
}

void discard_unfinished_checkpoint(fs::path const& folder) {
  std::error_code ignored;
  fs::remove_all(partial_of(folder), ignored);
}

void save_checkpoint(fs::path const& folder,
                     int keep,
                     RankContext const& context,
                     RankExecutor& executor) {
  fs::path const partial = partial_of(folder);
  std::error_code error;
  if (context.rank == RankId{0}) {
    fs::create_directories(folder, error);
    check(folder, error);
    fs::remove_all(partial, error);
    fs::create_directory(partial, error);
    check(partial, error);
  }
  context.communicator.barrier();
  CheckpointShare const share = ShareWriter{context, executor.parameters()}.take();
  write_checkpoint_file(partial / ("rank-" + std::to_string(context.rank.value()) + ".h5"), share,
                        accumulation_type(context.plan.config.model.precision));
  context.communicator.barrier();
  if (context.rank == RankId{0}) {
    publish(folder, partial, std::string{step_prefix} + std::to_string(context.state.step), keep);
  }
  context.communicator.barrier();
}

bool load_checkpoint(fs::path const& folder, RankContext const& context, RankExecutor& executor) {
  auto const shares = read_shares(folder);
  bool has_models = true;
  for (auto const& [path, share] : shares) {
    require_known(folder, share, context.plan);
    has_models = has_models && !share.model.empty();
    if (!share.model.empty()) require_same_model(path, share.model, context.plan.config.model);
  }
  std::map<std::string, std::vector<std::pair<CheckpointPiece const*, CheckpointShare const*>>>
      pieces;
  for (auto const& [path, share] : shares) {
    for (CheckpointPiece const& piece : share.pieces) {
      pieces[piece.name].emplace_back(&piece, &share);
    }
  }
  ParameterStore& store = executor.parameters();
  for (PlacedParameter const& placed : store.layout()) {
    ParameterWindow const window = context.window(placed);
    PartReader part{placed, window};
    for (auto const& [piece, share] : pieces[placed.name()]) {
      if (piece->whole_rows != window.whole_rows || piece->whole_columns != window.whole_columns) {
        throw DataError{folder.string() + ": " + placed.name() + ": found the shape " +
                        shape_text(piece->whole_rows, piece->whole_columns) +
                        "; accepted: " + shape_text(window.whole_rows, window.whole_columns) +
                        ", of a checkpoint of this model"};
      }
      part.take(*piece, *share);
    }
    if (!part.is_whole()) {
      throw DataError{folder.string() + ": not all of " + placed.name() +
                      " is there; accepted: a checkpoint of this model"};
    }
    store.set(context.backend, placed, part.weight);
    store.set_moments(context.backend, placed, part.first_moment, part.second_moment);
  }
  context.state = shares.front().second.state;
  bool const scales_loss = context.plan.config.model.precision == Precision::fp16;
  if (!scales_loss) context.state.loss_scale = TrainingState{}.loss_scale;
  return has_models;
}

}  // namespace stagecraft
