#include "apps/studies/objects/program.hpp"

#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "espalier/hw/pages.hpp"
#include "espalier/hw/pause.hpp"
#include "espalier/sync/lock_concept.hpp"
#include "espalier/sync/mcs_lock.hpp"

namespace espalier::simulate {
namespace {

constexpr std::size_t line_bytes = 64;

struct alignas(line_bytes) line {
  std::uint64_t value = 0;
};

struct alignas(line_bytes) object_lock {
  mcs_lock lock;
};

/// Contiguous objects in separate pages, so that each lies on the NUMA node that touches it first.
class object_array {
 public:
  explicit object_array(const objects_shape& shape)
      : shape_(shape),
        lock_(shape.objects),
        object_bytes_(page_round(shape.lines * line_bytes)),
        pages_(hw::map_pages(shape.objects * object_bytes_)) {}

  void touch(std::uint64_t object) {
    for (std::uint64_t i = 0; i < shape_.lines; ++i) new (&at(object, i)) line;
  }

  /// The operation: reads and writes every line.
  void operate(std::uint64_t object) {
    mcs_lock::queue_node mine;
    lock_[object].lock.lock(mine);
    for (std::uint64_t i = 0; i < shape_.lines; ++i) ++at(object, i).value;
    lock_[object].lock.unlock(mine);
  }

  [[nodiscard]] std::uint64_t writes() const {
    std::uint64_t sum = 0;
    for (std::uint64_t o = 0; o < shape_.objects; ++o) {
      for (std::uint64_t i = 0; i < shape_.lines; ++i) sum += at(o, i).value;
    }
    return sum;
  }
  [[nodiscard]] const objects_shape& shape() const noexcept { return shape_; }

 private:
  static std::size_t page_round(std::size_t bytes) {
    return (bytes + hw::page_size() - 1) / hw::page_size() * hw::page_size();
  }
  [[nodiscard]] line& at(std::uint64_t object, std::uint64_t i) const {
    return reinterpret_cast<line*>(pages_.data() + object * object_bytes_)[i];
  }

  objects_shape shape_;
  std::vector<object_lock> lock_;
  std::size_t object_bytes_;
  hw::page_run pages_;
};

class locked_objects final : public objects_program {
 public:
  explicit locked_objects(const objects_shape& shape) : objects_(shape) {}

  void settle(unsigned thread, unsigned) override {
    for (std::uint64_t o = thread; o < objects_.shape().objects; o += objects_.shape().threads)
      objects_.touch(o);
  }
  void operate(unsigned, unsigned, object_feed& feed) override {
    for (std::uint64_t o = 0; feed.next(o);) objects_.operate(o);
    feed.ended();
  }
  [[nodiscard]] std::uint64_t writes() const override { return objects_.writes(); }

 private:
  object_array objects_;
};

class delegated_objects final : public objects_program {
 public:
  explicit delegated_objects(const objects_shape& shape)
      : objects_(shape), members_(shape.localities), rank_(shape.threads), rings_(shape.localities) {
    for (hw::page_run& r : rings_)
      r = hw::map_pages(std::size_t{shape.threads} * shape.in_flight * sizeof(message));
  }

  void settle(unsigned thread, unsigned locality) override {
    rank_[thread] = members_[locality]++;
    if (rank_[thread] != 0) return;
    // The first thread of a locality touches the memory for all of it.
    for (unsigned sender = 0; sender < shape().threads; ++sender) {
      for (unsigned i = 0; i < shape().in_flight; ++i) new (&slot(locality, sender, i)) message;
    }
    for (std::uint64_t o = locality; o < shape().objects; o += shape().localities) objects_.touch(o);
  }

  void operate(unsigned thread, unsigned locality, object_feed& feed) override {
    server mine(*this, thread, locality);
    std::vector<unsigned> sent(shape().localities);
    for (std::uint64_t o = 0; feed.next(o);) {
      const auto home = static_cast<unsigned>(o % shape().localities);
      if (home == locality) {
        objects_.operate(o);
        mine.serve();
        continue;
      }
      message& request = slot(home, thread, sent[home]++ % shape().in_flight);
      mine.wait_for(request);
      request.object = o;
      // order: post (release) -> claim (acquire)
      request.stage.store(state::posted, std::memory_order_release);
      mine.serve();
      if (shape().in_flight == 1) mine.wait_for(request);
    }
    for (unsigned home = 0; home < shape().localities; ++home) {
      for (unsigned i = 0; i < shape().in_flight; ++i) mine.wait_for(slot(home, thread, i));
    }
    feed.ended();
    // Other threads may still wait for this locality.
    while (!feed.all_ended()) {
      mine.serve();
      hw::cpu_relax();
    }
  }

  [[nodiscard]] std::uint64_t writes() const override { return objects_.writes(); }

 private:
  enum class state : std::uint8_t { answered, posted, claimed };

  struct alignas(line_bytes) message {
    std::atomic<state> stage{state::answered};
    std::uint64_t object = 0;
  };

  /// One thread's share of its locality's work.
  class server {
   public:
    server(delegated_objects& program, unsigned thread, unsigned locality)
        : program_(program), rank_(program.rank_[thread]), locality_(locality), help_(rank_) {}

    /// Each member has a share of the senders. If it has found nothing for some time, it serves another member's share,
    /// because that member may be in a long operation.
    void serve() {
      if (program_.serve_share(rank_, locality_)) {
        fruitless_ = 0;
      } else if (++fruitless_ == looks_before_help) {
        fruitless_ = 0;
        help_ = (help_ + 1) % program_.members_[locality_];
        program_.serve_share(help_, locality_);
      }
    }

    void wait_for(const message& request) {
      // order: the wait (acquire) <- the answer (release)
      while (request.stage.load(std::memory_order_acquire) != state::answered) serve();
    }

   private:
    static constexpr unsigned looks_before_help = 4;

    delegated_objects& program_;
    unsigned rank_;
    unsigned locality_;
    unsigned help_;
    unsigned fruitless_ = 0;
  };

  [[nodiscard]] const objects_shape& shape() const noexcept { return objects_.shape(); }

  message& slot(unsigned locality, unsigned sender, unsigned turn) const {
    return reinterpret_cast<message*>(rings_[locality].data())[sender * shape().in_flight + turn];
  }

  bool serve_share(unsigned rank, unsigned locality) {
    bool found = false;
    for (unsigned sender = rank; sender < shape().threads; sender += members_[locality]) {
      for (unsigned i = 0; i < shape().in_flight; ++i) found = serve_one(slot(locality, sender, i)) || found;
    }
    return found;
  }

  bool serve_one(message& request) {
    state seen = request.stage.load(std::memory_order_relaxed);
    // order: claim (acquire) <- post (release)
    if (seen != state::posted ||
        !request.stage.compare_exchange_strong(seen, state::claimed, std::memory_order_acquire,
                                               std::memory_order_relaxed))
      return false;
    objects_.operate(request.object);
    request.stage.store(state::answered, std::memory_order_release);
    return true;
  }

  object_array objects_;
  std::vector<unsigned> members_;  // by locality
  std::vector<unsigned> rank_;     // by thread, within its locality
  std::vector<hw::page_run> rings_;
};

}  // namespace

std::unique_ptr<objects_program> make_locked_objects(const objects_shape& shape) {
  return std::make_unique<locked_objects>(shape);
}

std::unique_ptr<objects_program> make_delegated_objects(const objects_shape& shape) {
  return std::make_unique<delegated_objects>(shape);
}

}  // namespace espalier::simulate
