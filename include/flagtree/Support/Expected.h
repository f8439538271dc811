//===- Expected.h - A value or the error that stands in its place -*- C++
//-*-===//
//
// Errors are values in lib/: a function that can fail returns an Expected. No
// exception leaves the core.
//
//===----------------------------------------------------------------------===//

#ifndef FLAGTREE_SUPPORT_EXPECTED_H
#define FLAGTREE_SUPPORT_EXPECTED_H

#include <cassert>
#include <utility>
#include <variant>

namespace flagtree {

/// Holds either a T or an E. Both may be the same type.
template <typename T, typename E> class [[nodiscard]] Expected {
public:
  Expected(T Value) : Storage(std::in_place_index<0>, std::move(Value)) {}

  static Expected failure(E Error) {
    return Expected(std::in_place_index<1>, std::move(Error));
  }

  bool hasValue() const noexcept { return Storage.index() == 0; }
  explicit operator bool() const noexcept { return hasValue(); }

  T &value() noexcept {
    assert(hasValue());
    return *std::get_if<0>(&Storage);
  }
  const T &value() const noexcept {
    assert(hasValue());
    return *std::get_if<0>(&Storage);
  }
  T &operator*() noexcept { return value(); }
  const T &operator*() const noexcept { return value(); }
  T *operator->() noexcept { return &value(); }
  const T *operator->() const noexcept { return &value(); }

  E &error() noexcept {
    assert(!hasValue());
    return *std::get_if<1>(&Storage);
  }
  const E &error() const noexcept {
    assert(!hasValue());
    return *std::get_if<1>(&Storage);
  }

private:
  template <std::size_t I, typename U>
  Expected(std::in_place_index_t<I> Index, U &&Held)
      : Storage(Index, std::forward<U>(Held)) {}

  std::variant<T, E> Storage;
};

} // namespace flagtree

#endif // FLAGTREE_SUPPORT_EXPECTED_H
