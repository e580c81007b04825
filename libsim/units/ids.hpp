#pragma once

#include <compare>
#include <cstddef>
#include <utility>
#include <vector>

namespace stagecraft {

/// The number of one thing of a kind, counted from 0. Ids of different kinds do not mix with each
/// other, nor with plain integers, so that two of them cannot be handed over in the wrong order.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  explicit constexpr Id(int value) : value_{value} {}
  static constexpr Id of_index(std::size_t index) { return Id{static_cast<int>(index)}; }

  constexpr int value() const { return value_; }
  /// For containers that are not an IdVector. Pre: value() >= 0.
  constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  friend constexpr auto operator<=>(Id, Id) = default;
  friend constexpr Id next(Id id) { return Id{id.value_ + 1}; }
  friend constexpr Id previous(Id id) { return Id{id.value_ - 1}; }
  /// The one `count` behind it.
  friend constexpr Id operator+(Id id, int count) { return Id{id.value_ + count}; }

 private:
  int value_ = 0;
};

using GroupId = Id<struct GroupTag>;  ///< a group of ranks, in a plan's RankGroups
using GridId = Id<struct GridTag>;    ///< a RankGrid of a plan's RankGroups
using AxisId = Id<struct AxisTag>;    ///< an axis of one RankGrid
using RankId = Id<struct RankTag>;    ///< a process or device of the job
using StageId = Id<struct StageTag>;  ///< a pipeline stage
using ChunkId = Id<struct ChunkTag>;  ///< a chunk of one stage
/// A microbatch of one replica in one iteration.
using MicrobatchId = Id<struct MicrobatchTag>;
/// A microbatch of the global batch: those of the first replica come first.
using BatchMicrobatchId = Id<struct BatchMicrobatchTag>;
/// A part of the model, in the order in which a microbatch passes through them; see Placement.
using VirtualStageId = Id<struct VirtualStageTag>;

/// Stands for the microbatch of what belongs to none, such as a task of the optimizer step.
inline constexpr MicrobatchId no_microbatch{-1};
/// Stands for all microbatches of a global batch that nothing else is said about.
inline constexpr BatchMicrobatchId every_microbatch{-1};

/// The ids from 0 to size - 1, for range-based loops.
template <class IdType>
class IdRange {
 public:
  class Iterator {
   public:
    explicit constexpr Iterator(int value) : value_{value} {}
    constexpr IdType operator*() const { return IdType{value_}; }
    constexpr Iterator& operator++() {
      ++value_;
      return *this;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    int value_;
  };

  /// Pre: size >= 0.
  explicit constexpr IdRange(int size) : size_{size} {}
  explicit constexpr IdRange(std::size_t size) : size_{static_cast<int>(size)} {}

  constexpr Iterator begin() const { return Iterator{0}; }
  constexpr Iterator end() const { return Iterator{size_}; }

 private:
  int size_;
};

/// A vector that is indexed by ids.
template <class IdType, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(std::size_t size) : items_(size) {}
  explicit IdVector(std::vector<T> items) : items_{std::move(items)} {}

  IdType push_back(T item) {
    items_.push_back(std::move(item));
    return IdType::of_index(items_.size() - 1);
  }
  /// Pre: `id` is the id of an item.
  typename std::vector<T>::reference operator[](IdType id) { return items_[id.index()]; }
  typename std::vector<T>::const_reference operator[](IdType id) const {
    return items_[id.index()];
  }
  /// \throws std::out_of_range
  typename std::vector<T>::const_reference at(IdType id) const { return items_.at(id.index()); }

  void resize(std::size_t size) { items_.resize(size); }
  std::size_t size() const { return items_.size(); }
  IdRange<IdType> ids() const { return IdRange<IdType>{size()}; }
  bool empty() const { return items_.empty(); }
  /// Pre: not empty.
  typename std::vector<T>::const_reference front() const { return items_.front(); }
  typename std::vector<T>::const_reference back() const { return items_.back(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  friend bool operator==(IdVector const&, IdVector const&) = default;

 private:
  std::vector<T> items_;
};

}  // namespace stagecraft
