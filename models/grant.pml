/* The grant: who may have a write acknowledged, and on which replicas (S1-S6, S44, the start rule).
 *
 * One block in one region. Every write has its own value, so content tells which write it is. Processes talk
 * through shared variables that stand for messages under way; a message is slow by not being scheduled, an engine
 * or a replica is dead by not being scheduled. README.md says what is left out and how to read a trail.
 *
 * Sizes and fault budgets come by -D; models/run lists the configurations that are checked. */
#ifndef NR
#define NR 2      /* replicas, 2 or 3 */
#endif
#ifndef NE
#define NE 2      /* engine processes, the first one serves at the beginning */
#endif
#ifndef MS
#define MS 2      /* sessions per engine and replica */
#endif
#ifndef NW
#define NW 2      /* writes in all, at most 6 */
#endif
#ifndef NFL
#define NFL 1     /* flushes */
#endif
#ifndef NCR
#define NCR 1     /* crashes of single replicas */
#endif
#ifndef NPW
#define NPW 0     /* power cuts that hit all replicas at once */
#endif
#ifndef NCUT
#define NCUT 1    /* connections that break although both ends live */
#endif
#ifndef NLOST
#define NLOST 1   /* replies of a compare-and-swap that are lost */
#endif
#ifndef NRB
#define NRB 0     /* rebuilds */
#endif
#ifndef NCLR
#define NCLR 0    /* times that an engine clears the dirty region */
#endif
#ifndef STANDBY
#define STANDBY 0 /* 1: engines may also come as standby and activate themselves */
#endif
#ifndef RESTORE
#define RESTORE 0 /* 1: the store may be backed up once and restored once */
#endif

#define RW 1
#define WO 2
#define ERR 3

/* requests, kind * 8 + value */
#define K_HELLO 1
#define K_WR 2    /* a client's write */
#define K_FL 3    /* FLUSH */
#define K_GEN 4   /* store_generation */
#define K_CP 5    /* resync copy at a start */
#define K_SRV 6   /* mark_served */
#define K_CLR 7   /* clear_dirty */
#define K_RCP 8   /* rebuild: copy (value 7: nothing differs) and sync */
#define K_FIN 9   /* rebuild: store the generation, mark served */
#define K_EXE 10  /* only planted: a write that outlives its connection */
#define NOCOPY 7
#define REQ(k, v) ((k) * 8 + (v))

/* engine phases */
#define P_OFF 0
#define P_STBY 1
#define P_HELLO 2
#define P_CASW 3  /* the start's Grant change is under way */
#define P_PREP 4  /* generation stored, regions copied */
#define P_SRVW 5
#define P_DEAD 6
#define P_DEGC 7  /* member lost: Grant change under way */
#define P_DEGG 8  /* member lost: remaining members store the generation */
#define P_SERVE 9
#define P_WRW 10
#define P_FLW 11
#define P_CLRW 12
#define P_RBC1 13 /* ERR -> WO under way */
#define P_RBH 14
#define P_RBW 15
#define P_RBF 16
#define P_RBC2 17 /* WO -> RW under way */

/* what became of a value */
#define V_NONE 0
#define V_PEND 1  /* issued, nobody has seen it */
#define V_CUR 2   /* what a read must return */
#define V_PAST 3  /* took effect and was overwritten, or lost where a loss is allowed */
#define V_ABORT 4 /* a newer engine served without it: it must never be acknowledged */

/* the Grant */
byte gact = 1; byte gstb; byte ghi = 1; byte ggen = 1; byte gexp; bit gunp;
byte gm[NR] = RW;
#if RESTORE
byte bstate; byte bgen; byte bhi; byte bm[NR];
#endif

/* replicas; served is in memory only, mem is what a read returns, disk what a power cut leaves */
byte fe[NR] = 1; byte fen[NR]; byte fs[NR]; bit ro[NR] = 1;
byte mem[NR]; byte disk[NR]; bit dirty[NR]; byte gen[NR] = 1; byte served[NR] = 1;

/* engines */
byte ph[NE]; byte ep[NE]; byte vgen[NE]; bit vunp[NE]; byte vexp[NE]; bit fresh[NE]; byte cas[NE]; byte ret[NE];
byte ngen[NE]; bit nexp[NE]; byte src[NE]; bit ud[NE]; byte cur[NE]; bit fld[NE]; byte rbr[NE];
byte vm_[NE * NR]; byte nm_[NE * NR]; byte link_[NE * NR]; byte ses_[NE * NR]; bit dn_[NE * NR];
bit ac_[NE * NR]; bit ad_[NE * NR]; byte ag_[NE * NR];
byte w_[NE * NR * MS];
#ifdef PLANT_CAS_ABANDON
bit ofresh[NE]; byte ogen[NE]; bit oexp[NE]; byte om_[NE * NR];
#endif

/* budgets and what only the checker knows */
byte nv = 1; byte nfl; byte ncr; byte npw; byte ncut; byte nlost; byte nrb; byte nclr; byte nst = 1; byte mep = 1;
byte st[NW + 1]; byte okm = 1; byte cv; byte ms = 1; byte mexp; bit was[NE];

hidden byte i; hidden byte j; hidden byte k; hidden byte v; hidden byte x; hidden byte c;
hidden byte me; hidden byte any; hidden byte chg;

#define VM(e, r) vm_[(e) * NR + (r)]
#define NM(e, r) nm_[(e) * NR + (r)]
#define L(e, r) link_[(e) * NR + (r)] /* 0 none, 1 HELLO said, 2 up, 3 seen lost */
#define S(e, r) ses_[(e) * NR + (r)]  /* sessions begun */
#define DN(e, r) dn_[(e) * NR + (r)]
#define AC(e, r) ac_[(e) * NR + (r)]
#define AD(e, r) ad_[(e) * NR + (r)]
#define AG(e, r) ag_[(e) * NR + (r)]
#define W(e, r, s) w_[((e) * NR + (r)) * MS + (s)]
#define WNOW(e, r) W(e, r, S(e, r) - 1)
#define OPEN(e, r, s) (ro[r] && fen[r] == (e) && fs[r] == (s))
#define LIVE(e, r) (L(e, r) == 2 && OPEN(e, r, S(e, r) - 1))
#define MEMBER(e, r) (VM(e, r) == RW || VM(e, r) == WO)

#if NR == 2
#define ALL(P) (P(0) && P(1))
#define ANY(P) (P(0) || P(1))
#else
#define ALL(P) (P(0) && P(1) && P(2))
#define ANY(P) (P(0) || P(1) || P(2))
#endif

/* -DREACH=n turns the n-th landmark into an error: a landmark that SPIN cannot reach makes a pass worthless. */
#ifdef REACH
#define LANDMARK(n) assert((n) != REACH)
#else
#define LANDMARK(n) skip
#endif
/* The checks on mechanism can be switched off to see whether the data alone betrays a planted mistake. */
#ifdef DATA_ONLY
#define MECHANISM(p) skip
#else
#define MECHANISM(p) assert(p)
#endif

/* ---- ghosts: what a client may see ---- */

inline ghost_issue(e) {
  printf("engine %d sends write %d\n", e, nv);
  if
  :: ms > e + 1 -> st[nv] = V_ABORT
  :: else -> st[nv] = V_PEND; okm = okm | (1 << nv)
  fi
}

inline ghost_overwrite(val) {
  st[cv] = V_PAST;
  cv = val;
  st[cv] = V_CUR
}

/* Members that a reader could be sent to agree with what was acknowledged. */
inline check_members(e) {
  for (i : 0 .. NR - 1) {
    if
    :: VM(e, i) == RW && LIVE(e, i) -> assert(mem[i] == cv) /* RW members agree, nothing acknowledged is lost */
    :: else
    fi
  }
}

/* S6, S44: the set that the engine relies on is the set that the Grant names. Superseded engines cannot know. */
inline check_set(e) {
  if
  :: gact == e + 1 ->
    for (i : 0 .. NR - 1) {
      MECHANISM(gm[i] == VM(e, i))
    }
  :: else
  fi
}

inline ghost_ack(e) {
  printf("engine %d acknowledges write %d\n", e, cur[e]);
  check_set(e);
  assert(st[cur[e]] != V_ABORT && st[cur[e]] != V_NONE); /* S1 */
  if
  :: ms > e + 1 -> LANDMARK(1) /* answered everywhere before the fence, heard of later */
  :: else
  fi;
  if
  :: st[cur[e]] == V_PEND -> ghost_overwrite(cur[e])
  :: else
  fi;
  if
  :: ms == e + 1 -> check_members(e)
  :: else
  fi;
  cur[e] = 0
}

inline ghost_flushed(e) {
  printf("engine %d acknowledges a flush of %d\n", e, cv);
  check_set(e);
  if
  :: ms == e + 1 -> okm = 1 << cv; LANDMARK(2); check_members(e)
  :: else
  fi
}

inline ghost_serve(e) {
  printf("engine %d begins to serve: contents %d %d, acknowledged %d\n", e, mem[0], mem[1], cv);
  MECHANISM(was[e]); /* S22: the Grant named this engine active */
  any = 0;
  for (i : 0 .. NR - 1) {
    if
    :: VM(e, i) == RW && LIVE(e, i) && !any -> any = 1; c = mem[i]
    :: else
    fi
  }
  if
  :: any && e + 1 > ms ->
    if
    :: gact == e + 1 ->
      check_set(e);
      for (i : 0 .. NR - 1) {
        MECHANISM(gm[i] != RW || fe[i] >= ep[e]) /* S5 */
      }
      MECHANISM(!gunp);
      MECHANISM(!nexp[e] || gexp == e + 1)
    :: else
    fi;
    if
    :: vexp[e] != mexp -> assert(okm & (1 << c)); LANDMARK(3) /* flushed data survives everything */
    :: else -> assert(st[c] == V_CUR || st[c] == V_PEND); LANDMARK(4) /* acknowledged data survives */
    fi;
    for (i : 0 .. NW) {
      if
      :: st[i] == V_PEND && i != c ->
        if
        :: vexp[e] != mexp -> st[i] = V_PAST
        :: else -> st[i] = V_ABORT
        fi
      :: else
      fi
    }
    if
    :: c != cv -> ghost_overwrite(c); LANDMARK(5)
    :: else
    fi;
    ms = e + 1; mexp = vexp[e];
    check_members(e)
  :: else
  fi
}

#include "grant_parts.pml"

init {
  d_step {
    st[0] = V_CUR;
    ph[0] = P_SERVE; ep[0] = 1; vgen[0] = 1; fresh[0] = 1; was[0] = 1;
    for (i : 0 .. NR - 1) {
      VM(0, i) = RW; L(0, i) = 2; S(0, i) = 1; AG(0, i) = 1; AC(0, i) = 1
    }
  }
  atomic {
    run Engine(0); run Engine(1);
#if NE > 2
    run Engine(2);
#endif
#if NE > 3
    run Engine(3);
#endif
    run Link(0, 0); run Link(0, 1); run Link(1, 0); run Link(1, 1);
#if NR > 2
    run Link(0, 2); run Link(1, 2);
#endif
#if NE > 2
    run Link(2, 0); run Link(2, 1);
#if NR > 2
    run Link(2, 2);
#endif
#endif
#if NE > 3
    run Link(3, 0); run Link(3, 1);
#if NR > 2
    run Link(3, 2);
#endif
#endif
    run World()
  }
}
